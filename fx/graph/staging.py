"""Staging: running a function on values that are not known, to learn what graph it computes.

While a function is staged, ``modes.stage`` is its ``Stage``. Its arguments are ``StageTracer``s, at
a level below every transform that runs inside; what is done to them becomes nodes. What does not
depend on them runs at once and becomes a constant, save creation (``zeros``, ``arange``), which is
staged, so that no graph drags large constants along. Cells are asked through the stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fx import tree
from fx.config import modes
from fx.devices import Device
from fx.errors import StagingError
from fx.frames import user_line
from fx.graph.ir import Graph, Node, Value, constant_value, input_value
from fx.graph.printing import subgraphs
from fx.graph.surroundings import Outside, Surroundings
from fx.levels import Level, Tracer, live
from fx.primitive import registry
from fx.spec import TensorSpec
from fx.tape import CELL, GradTracer
from fx.tensor import Tensor, _new, new_tensor


class StageTracer(Tracer):
    """A tensor that is not known while a function is staged: a value of the graph."""

    __slots__ = ("ref", "stage")
    transform = "jit"
    ref: Value
    stage: Stage

    @property
    def shape(self) -> tuple[int, ...]:
        stage = modes.stage or self.stage  # the innermost function that runs
        return stage.tells(self.ref.spec.shape, stage is self.stage)  # type: ignore[no-any-return]

    @property
    def dtype(self) -> Any:
        return self.ref.spec.dtype

    @property
    def device(self) -> Device:
        return Device(self.ref.spec.device)

    @property
    def value(self) -> Tensor:  # type: ignore[override]
        """What is below, for those who look for a tape there: nothing but a spec."""
        return new_tensor(TensorSpec(self.shape, self.ref.spec.dtype, "meta"))

    def concrete(self) -> Tensor:
        return self.stage.concrete(self)

    def lies(self) -> Any:
        """Where its parts lie (``fx/prims/placing.py``); None if that is not known."""
        return self.stage.lies(self.ref)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return self.stage.emit(primitive, args, params)


_asked = count()


def memory_steps(x: Any) -> tuple[int, ...] | None:
    """``Stage.memory_steps`` of a tensor of any level; None where nothing is staged."""
    while isinstance(x, GradTracer):
        x = x.value
    stage = x.stage if type(x) is StageTracer else modes.stage
    return None if stage is None else stage.memory_steps(x)


def is_staged(x: Any) -> bool:
    """Whether what is done to a tensor, of any level, goes into a graph; else it is done now."""
    while x.level == CELL or (isinstance(x, Tracer) and type(x) is not StageTracer):
        x = x.read() if x.level == CELL else x.value
    return type(x) is not Tensor


class Stage(Surroundings):
    """A function that is being staged.

    Args:
        name: of the function, for messages.
        level: the running level of its tracers.

    Attributes:
        nodes: what was staged so far.
        captured: the tensors from outside that it met, with the inputs that stand for them.
        encloses: whether what is done inside to tensors from outside alone is staged as well, not
            done where they come from: in a branch, which may not be taken.
    """

    encloses = False

    def __init__(self, name: str, level: Level) -> None:
        self.name = name
        self.number = level.number
        self.below = level.below  # what runs around it in this thread
        self.nodes: list[Node] = []
        self.captured: dict[int, tuple[Tensor, Value]] = {}
        self.constants: dict[int, Value] = {}
        self.kept: list[Tensor] = []
        self.cells: dict[int, tuple[Any, Tensor]] = {}
        self.outer: Any = None
        self.touched: Any = None  # what the function was seen to read, where it is watched

    # as a context: the stage of this thread -----------------------------------------------------

    def __enter__(self) -> Any:
        assert self.number in live  # who asks whether something is staged asks `live` first
        self.outer, self.around = modes.stage, (modes.barrier, modes.silent)
        modes.stage = self
        return self

    def __exit__(self, *error: object) -> None:
        modes.stage = self.outer

    def enclosing(self, level: int) -> Stage | None:
        """The innermost running stage, in a branch, for an operation on tensors of ``level``."""
        found: Any = self
        while found is not None and found.number > level:
            if found.encloses:
                return found  # type: ignore[no-any-return]
            found = found.outer
        return None

    # values -------------------------------------------------------------------------------------

    def tracer(self, value: Value) -> StageTracer:
        """A tensor that stands for a value of the graph."""
        tracer = _new(StageTracer)
        tracer.level = self.number
        tracer.stage = self
        tracer.ref = value
        tracer._node = None
        self.note(tracer, value)
        return tracer

    def note(self, tracer: StageTracer, value: Value) -> None:
        """Another object stands for a value: who holds one may ask for it later on."""

    def value_of(self, x: Any) -> Value:
        """The graph's value for a tensor: its own, a 0-d constant, or an input that captures it."""
        if type(x) is StageTracer and x.stage is self:
            return x.ref
        if type(x) is Tensor and x._node is None and x.device.name == "cpu":
            found = self.constants.get(id(x))
            if found is None and not x.ndim:
                found = self.constants[id(x)] = constant_value(x)
            elif found is None and x.size and not any(x._a.strides):  # one number, broadcast
                found = self.constants[id(x)] = self._uniform(x)
            if found is not None:
                return found
        return self.capture(x)

    def _uniform(self, x: Tensor) -> Value:
        """A node for a tensor that holds one number everywhere."""
        from fx.prims.creation import full

        params = {"shape": x.shape, "value": x._a.flat[0].item(), "dtype": x.dtype, "device": "cpu"}
        self.kept.append(x)  # its id is known
        return self.add(full, (), params, (x.spec,)).outs[0]

    def read_named(self, x: Any) -> Tensor:
        """What stands for a named tensor (``fx.graph.named``)."""
        with Outside(self):
            value = x if self.outer is None else x.read()
        return self.tracer(self.capture(value))

    def asked(self, x: Any) -> None:
        """The function asks how a named tensor or a cell is made: its shape, dtype or device."""

    def capture(self, x: Tensor) -> Value:
        """The input that stands for a tensor from outside."""
        found = self.captured.get(id(x))
        if found is None:
            value = input_value(TensorSpec(x.shape, x.dtype, x.device.name))
            found = self.captured[id(x)] = (x, value)
        return found[1]

    def emit(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Stage one operation; the tracers of its results."""
        values = [self.value_of(x) for x in args]
        if len(values) > 1 and len({v.spec.device for v in values}) > 1:
            values = self._together(primitive, values, params)
        specs = primitive.spec(*[v.spec for v in values], **params)
        node = self.add(primitive, values, params, specs if primitive.multiple else (specs,))
        if primitive.multiple:
            return tuple([self.tracer(v) for v in node.outs])
        return self.tracer(node.outs[0])

    def _together(self, primitive: Any, values: list[Value], params: dict[str, Any]) -> list[Value]:
        """Operands of several devices, refused where they are eagerly.

        What runs graphs of its own, or a user's function, sees to what meets inside.
        """
        if getattr(primitive, "is_applied", False) or next(iter(subgraphs(params)), None):
            return values
        there = primitive.together([v.spec for v in values])
        put = registry["device_put"]
        return [
            self.emit(put, (self.tracer(v),), {"device": there}).ref
            if v.spec.shape and v.spec.device != there
            else v
            for v in values
        ]

    def add(self, primitive: Any, values: Sequence[Value], params: Any, specs: Any) -> Node:
        """A new node."""
        node = Node(primitive, values, params, specs, user_line())
        self.nodes.append(node)
        return node

    def seeded(self, x: Any) -> Any:
        """A known cotangent or tangent, that meets shapes of the graph: what it gives may depend
        on these, and is to be computed where they are known."""
        if type(x) is not Tensor or x._node is not None or not self.serves_sizes():
            return x
        return self.tracer(self.value_of(x))

    def lower(self, x: Any) -> Any:
        """A result without what transforms of this function put around it."""
        while isinstance(x, GradTracer) and x.level > self.number:
            x = x.value
        return x.read() if isinstance(x, Tensor) and x.level == CELL else x

    # what a function asks that a graph cannot answer ----------------------------------------------

    def concrete(self, tracer: StageTracer) -> Tensor:
        """The value of a tracer: known if it depends on constants alone."""
        found = evaluate(tracer.ref)
        if found is None:
            return self.unknown(tracer)
        if tracer.ref.node is not None and self.serves_sizes():
            self.was_told(next(_asked))  # what it is at another size nobody knows
        return found

    def unknown(self, tracer: StageTracer) -> Tensor:
        """What is done about a value that depends on the arguments.

        Raises:
            StagingError: a graph of its own has no value to give.
        """
        raise StagingError(
            f"the value of {tracer.ref.spec!r} is not known while {self.name} is staged, and "
            f"Python asked for it (bool(), int(), .item(), if, while). Use fx.where, fx.cond or "
            f"fx.while_loop on it, or call the function through fx.jit, which branches"
        )

    def lies(self, value: Value) -> Any:
        """Where the parts of a value lie; None: a graph of its own does not know."""

    def boundary(self, function: Callable[..., Any], args: Sequence[Tensor]) -> Any:
        """What ``function`` computes of known tensors, in shapes that depend on their values."""
        return function(*[x.concrete() if isinstance(x, StageTracer) else x for x in args])

    # cells --------------------------------------------------------------------------------------

    def read(self, cell: Any) -> Tensor:
        """The tensor that a cell holds; of a cell from outside, an input."""
        if cell.born >= self.number:
            return cell.value  # type: ignore[no-any-return]
        known = self.cells.get(id(cell))
        if known is None:
            with Outside(self):
                value = cell.read()
            known = self.cells[id(cell)] = (cell, self.tracer(self.capture(value)))
        return known[1]

    def rebind(self, cell: Any, value: Tensor) -> None:
        """Refuse to rebind a cell from outside.

        Raises:
            StagingError: a body gives its results back, it does not store them.
        """
        raise StagingError(
            f"{cell.name or 'a cell'} {cell.spec!r} is rebound inside {self.name}, whose body runs "
            f"any number of times; pass its value in and return the new one, then rebind it outside"
        )


def evaluate(value: Value) -> Tensor | None:
    """The tensor of a value that depends on constants alone; None for another."""
    if value.constant is not None:
        return value.constant
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node | None, bool]] = [(value.node, False)]
    while stack:
        node, expanded = stack.pop()
        if node is None:
            return None
        if expanded:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((v.node, False) for v in node.inputs if v.constant is None)
    saved, modes.stage = modes.stage, None
    try:
        return Graph((), order, (value,)).run()[0]  # type: ignore[no-any-return]
    finally:
        modes.stage = saved


def stage(
    function: Callable[..., Any],
    specs: Sequence[TensorSpec],
    name: str = "a body",
    encloses: bool = False,
) -> tuple[Graph, list[Tensor]]:
    """Stage a function of flat tensors.

    Args:
        function: takes one tensor a spec, and returns a sequence of tensors.
        specs: of the arguments.
        name: what messages call it.
        encloses: whether it is a branch, which takes operations on what is outside with it.

    Returns:
        the graph, whose inputs are the arguments followed by what the function took from outside,
        and the list of the latter: tensors of any level, in the order of the inputs.

    Raises:
        StagingError: if it asks for a value that is not known, or rebinds a cell.
    """
    with Level("jit") as level, Stage(name, level) as staged:
        staged.encloses = encloses
        inputs = [input_value(spec) for spec in specs]
        outs = function(*[staged.tracer(v) for v in inputs])
        outputs = [staged.value_of(staged.lower(x)) for x in outs]
    values = [value for _, value in staged.captured.values()]
    graph = Graph([*inputs, *values], staged.nodes, outputs, name)
    return graph, [x for x, _ in staged.captured.values()]


def make_graph(function: Callable[..., Any]) -> Callable[..., Graph]:
    """A function that stages ``function`` for its arguments and returns the graph.

    The inputs of the graph are the leaves of the arguments, followed by the tensors that
    ``function`` takes from outside; its outputs are the leaves of the result. Nothing is optimised;
    ``fx.jit(f).lower(*args).graph`` is what is compiled.

    Args:
        function: takes and returns pytrees of tensors.

    Example:
        >>> import fx
        >>> graph = fx.make_graph(lambda x: fx.sin(x) * 2)(fx.ones(3))
        >>> [node.primitive.name for node in graph.nodes]
        ['sin', 'multiply']
    """
    from fx.ops.convert import as_tensor

    def graph_of(*args: Any, **kwargs: Any) -> Graph:
        leaves, treedef = tree.flatten((args, kwargs))
        specs = [x if isinstance(x, TensorSpec) else as_tensor(x).spec for x in leaves]

        def flat(*xs: Tensor) -> list[Tensor]:
            new_args, new_kwargs = tree.unflatten(treedef, xs)
            out = function(*new_args, **new_kwargs)
            return [as_tensor(x) for x in tree.leaves(out)]

        return stage(flat, specs, getattr(function, "__name__", "a function"))[0]

    return graph_of
