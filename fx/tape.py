"""The tape: what is recorded of an operation, for ``.backward()`` and ``grad`` alike.

A node is made when an operation on something that needs a gradient is recorded: it holds the
pullback that the primitive's VJP rule returned, and the nodes of the arguments. The tape of
``.backward()`` is level 0; its rules get the recorded tensors themselves, so that
``create_graph=True`` has only to let them be recorded again. The rules of a ``grad`` get the values
of the level below. ``fx/backward_pass.py`` goes back over it.

An output that a pullback wants is kept as a bare value beside the pullback, never as the recorded
tensor: that one owns the node, and the two would keep each other alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from fx.config import modes
from fx.devices import name_of
from fx.levels import Tracer
from fx.spec import TensorSpec
from fx.tensor import Tensor, _new, new_tensor
from fx.versions import Hooks

CELL = 1 << 62  # the level of a cell: above every transform, so that bind reads it first
_sequence = count().__next__


class Node:
    """What was recorded of one operation."""

    __slots__ = ("extra", "level", "parents", "primitive", "pullback", "saved", "seq", "specs")

    primitive: Any
    pullback: Callable[..., Sequence[Tensor | None]] | None
    parents: tuple[Any, ...]
    seq: int
    level: int
    # set only where the primitive has `saves` or is `multiple`
    saved: tuple[Any, ...]  # (output index, bare value) of each output that the pullback wants
    specs: Any  # the specs of the outputs; None may stand for one without a cotangent
    extra: Extra | None

    def name(self) -> str:
        """PyTorch's name of the node, such as ``AddBackward0``."""
        return f"{self.primitive.torch_name}Backward0"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes of the arguments, each with the index of the output that was used."""
        return tuple((p.of, p.index) if type(p) is Select else (p, 0) for p in self.parents)

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class Leaf(Node):
    """The place of a tensor that requires grad itself: here gradients end and add up."""

    __slots__ = ("__weakref__", "grad", "handle", "owner")

    grad: Tensor | None
    handle: Any  # None, or a weak reference to what `p.grad` gave (fx.handles)
    owner: Any  # None, or a weak reference to the tensor or cell whose place this is

    def __init__(self, level: int = 0, owner: Any = None) -> None:
        self.seq = _sequence()  # made before every node that uses it
        self.level = level
        self.parents = ()
        self.extra = None
        self.grad = None
        self.handle = None
        self.owner = owner

    @property
    def variable(self) -> Tensor | None:
        """The tensor that requires grad, as in PyTorch; None if it is gone."""
        return None if self.owner is None else self.owner()

    def name(self) -> str:
        return "AccumulateGrad"


asleep: set[Leaf] = set()  # those of tensors that require grad no more (fx.gradients)


class Select(Node):
    """One output of a node that has several."""

    __slots__ = ("index", "of")

    of: Node
    index: int

    def __init__(self, of: Node, index: int) -> None:
        self.of = of
        self.index = index
        self.level = of.level
        self.parents = (of,)
        self.seq = _sequence()
        self.extra = None

    def name(self) -> str:
        return self.of.name()


class Extra:
    """What few nodes have: hooks and a kept gradient."""

    __slots__ = ("grad", "hooks", "post_hooks", "retain")

    def __init__(self) -> None:
        self.hooks = Hooks()  # Callable[[Tensor], Tensor | None]
        self.post_hooks = Hooks()  # Callable[[], None]
        self.retain = False
        self.grad: Tensor | None = None

    def numbers(self) -> tuple[Any, ...]:
        """Those of the hooks, which no other hook ever has; () if there are none."""
        found = *self.hooks, None, *self.post_hooks
        return () if found == (None,) else found

    def all(self) -> list[Any]:
        """The hooks, of both kinds."""
        return [*self.hooks.values(), *self.post_hooks.values()]


def extra_of(node: Node) -> Extra:
    """The node's extras, made when first asked for."""
    if node.extra is None:
        node.extra = Extra()
    return node.extra


class GradTracer(Tracer):
    """A tensor on the tape of a transform: its value one level below, and its node in ``_node``."""

    __slots__ = ()
    transform = "grad"
    fuses = True

    def graft(self, value: Any, cut: bool, below: Any) -> Any:
        node = self._node
        if node is None:
            return value
        if modes.stage is not None and type(node) is not Leaf:
            modes.stage.grafts(self)
        while value.level >= self.level:
            value = value.value
        return grad_tracer(self.level, below(value, self.value, cut), node)

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        level = self.level
        values = tuple([x.value if x.level == level else x for x in args])
        if primitive.forward is not None and level > modes.barrier and level != modes.silent:
            return _forward(level, primitive, args, values, params)
        out = primitive(*values, **params)
        if not primitive.differentiable or level <= modes.barrier or level == modes.silent:
            return out
        parents = tuple([x._node if x.level == level else None for x in args])
        # on the odd levels of .backward() create_graph must find recorded tensors in the pullback
        pullback = primitive.vjp(parents, *(args if level & 1 else values), **params)
        if pullback is None:
            return out
        node = _node(primitive, pullback, parents, level)
        if primitive.multiple:
            node.specs = tuple([o.spec for o in out])
            node.saved = tuple([(i, out[i]) for i in primitive.saves])
            return tuple([_select_traced(level, o, node, i) for i, o in enumerate(out)])
        if primitive.saves:
            node.saved = ((0, out),)
        return grad_tracer(level, out, node)


def _forward(level: int, primitive: Any, args: Any, values: Any, params: dict[str, Any]) -> Any:
    """Record a primitive that computes its results and what its pullback needs in one go."""
    parents = tuple([x._node if x.level == level else None for x in args])
    outs, bare = primitive.forward(parents, *values, **params)
    if bare is None:
        return outs
    pullback = bare
    if level & 1:  # as above: of the recorded tensors, if the backward pass is recorded

        def pullback(cts: Any, *saved: Any) -> Any:
            if level <= modes.barrier or level == modes.silent:
                return bare(cts, *saved)
            return primitive.vjp(parents, *args, **params)(cts, *saved)

    node = _node(primitive, pullback, parents, level)
    node.specs = tuple([o.spec for o in outs])
    node.saved = tuple([(i, outs[i]) for i in primitive.saves])
    return tuple([_select_traced(level, o, node, i) for i, o in enumerate(outs)])


def grad_tracer(level: int, value: Tensor, node: Node) -> GradTracer:
    """A tracer at ``level``."""
    tracer = _new(GradTracer)
    tracer.level = level
    tracer.value = value
    tracer._node = node
    return tracer


def _select_traced(level: int, value: Tensor, node: Node, index: int) -> Tensor:
    if value.dtype.kind in "biu":
        return value
    return grad_tracer(level, value, Select(node, index))


def _node(primitive: Any, pullback: Any, parents: tuple[Any, ...], level: int) -> Node:
    node = _new(Node)
    node.primitive = primitive
    node.pullback = pullback
    node.parents = parents
    node.saved = ()
    node.specs = None
    node.extra = None
    node.level = level
    node.seq = _sequence()
    return node


def record(primitive: Any, args: tuple[Any, ...], params: dict[str, Any], out: Tensor) -> None:
    """Give ``out``, just computed from plain ``args``, its node on the level-0 tape.

    The cases of one and two arguments without parameters are written out: unpacking an empty dict
    into a call costs more than the rest of a recording.
    """
    count = len(args)
    if count == 1:
        parents: tuple[Any, ...] = (args[0]._node,)
        vjp = primitive.vjp
        pullback = vjp(parents, args[0], **params) if params else vjp(parents, args[0])
    elif count == 2 and not params:
        x, y = args
        parents = (x._node, y._node)
        pullback = primitive.vjp(parents, x, y)
    else:
        parents = tuple([x._node for x in args])
        pullback = primitive.vjp(parents, *args, **params)
    if pullback is None:
        return
    node = _new(Node)
    node.primitive = primitive
    node.pullback = pullback
    node.parents = parents
    node.extra = None
    node.level = 0
    node.seq = _sequence()
    if primitive.saves:
        node.saved = ((0, new_tensor(out._a)),)
    out._node = node


def attach(primitive: Any, pullback: Any, parents: tuple[Any, ...], out: Tensor) -> None:
    """Give ``out``, just computed from plain tensors, its node: what ``record`` ends with."""
    if pullback is None:
        return
    node = _new(Node)
    node.primitive = primitive
    node.pullback = pullback
    node.parents = parents
    node.extra = None
    node.level = 0
    node.seq = _sequence()
    if primitive.saves:
        node.saved = ((0, new_tensor(out._a)),)
    out._node = node


def freed_node(primitive: Any) -> Node:
    """A node that a backward pass has gone through already, and freed."""
    return _node(primitive, None, (), 0)


def record_each(
    primitive: Any, x: Tensor, pullbacks: Iterable[Any], outs: Iterable[Tensor]
) -> None:
    """Give ``outs``, each computed from plain ``x`` alone, nodes with these pullbacks."""
    parents = (x._node,)
    for pullback, out in zip(pullbacks, outs):
        attach(primitive, pullback, parents, out)


def record_multiple(
    primitive: Any, args: tuple[Any, ...], params: dict[str, Any], outs: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """The same for a primitive with several outputs."""
    parents = (args[0]._node,) if len(args) == 1 else tuple([x._node for x in args])
    pullback = primitive.vjp(parents, *args, **params)
    return outs if pullback is None else _noted(primitive, pullback, parents, outs)


def record_forward(
    primitive: Any, args: tuple[Any, ...], params: dict[str, Any]
) -> tuple[Tensor, ...]:
    """Run and record on the level-0 tape a primitive that keeps more than its results.

    Only a backward pass that is recorded itself goes by the rule that has all from ``args``.
    """
    parents = tuple([x._node for x in args])
    outs, bare = primitive.forward(parents, *[new_tensor(x._a) for x in args], **params)
    whole = primitive.vjp(parents, *args, **params)
    if whole is None:
        return outs  # type: ignore[no-any-return]

    def pullback(cts: Any, *saved: Any) -> Any:
        return (whole if modes.record0 else bare)(cts, *saved)

    return _noted(primitive, pullback, parents, outs)


def _noted(
    primitive: Any, pullback: Any, parents: tuple[Any, ...], outs: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Give several results their node."""
    node = _node(primitive, pullback, parents, 0)
    saves = primitive.saves
    if len(saves) == 1:  # as mostly; a list of one costs more than this
        node.saved = ((saves[0], new_tensor(outs[saves[0]]._a)),)
    elif saves:
        node.saved = tuple([(i, new_tensor(outs[i]._a)) for i in saves])
    placed = index = 0
    for out in outs:
        if out._a.dtype.kind not in "biu":
            out._node = Select(node, index)
            placed += 1
        index += 1
    if placed > 1:
        node.specs = [_cotangent_spec(out) for out in outs]
    else:  # the cotangent of the only one is there when the pass comes here
        node.specs = (None,) * index
    return outs


def _cotangent_spec(out: Tensor) -> TensorSpec | None:
    array = out._a
    if out._node is None:
        return None
    return TensorSpec(array.shape, array.dtype, name_of(array))


def off_inner_tape(x: Any, level: int) -> Any:
    """A result without its place on the tape of ``.backward()`` that ends with ``level``."""
    return x.value if type(x) is GradTracer and x.level == level + 1 else x


def node_at(tensor: Tensor, level: int) -> Node | None:
    """The node of ``tensor`` on the tape of ``level``, or None if it is a constant there."""
    if tensor.level == level or (level == 0 and tensor.level < 0):
        return tensor._node  # type: ignore[no-any-return]
    return None
