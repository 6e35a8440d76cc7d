"""The part of a recording that knows gradients: tensors from outside that require one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

from fx.config import is_grad_enabled
from fx.graph.ir import Value
from fx.graph.named import Named, node_of
from fx.spec import TensorSpec
from fx.tape import CELL, GradTracer, grad_tracer
from fx.tape import Leaf as TapeLeaf
from fx.tensor import Tensor
from fx.transforms.jitting.program import Argument, Found, Gathered, Given, Program, Source

PLAIN = (Tensor, Named)


class Lifted:
    """A tensor from outside that requires grad: its leaf on the tape of the staged function."""

    __slots__ = ("before", "dropped", "leaf", "needed", "owner", "past")

    def __init__(self, owner: Any, leaf: TapeLeaf, before: Tensor | None, past: bool) -> None:
        self.owner = owner
        self.leaf = leaf
        self.before = before  # what stands for the gradient that it had before
        self.dropped = False  # whether that was replaced before anybody asked for it
        self.needed = False  # whether somebody asked
        self.past = past  # whether it has a history


class GradientRecording:
    """The part of a recording that knows gradients."""

    program: Program
    call: Any
    number: int
    outer: Any
    records: bool
    given: dict[int, Any]
    lifted: dict[int, Lifted]
    lifted_of: dict[int, tuple[Any, Tensor]]

    if TYPE_CHECKING:

        def input(self, source: Source, spec: TensorSpec) -> Value: ...
        def capture(self, x: Tensor) -> Value: ...
        def tracer(self, value: Value) -> Tensor: ...
        def give_up(self, why: str) -> NoReturn: ...

    def lift(self, x: Tensor, value: Tensor, owner: Any) -> Tensor:
        """``value``, which stands for ``x``, what ``owner`` is or holds, as a leaf of this tape."""
        level = self.number | 1
        if isinstance(owner, Tensor):
            finder = (
                None
                if owner.level == CELL and type(owner) is not Named
                else self.call.finder(owner)
            )
            owner = ref(owner) if finder is None else Found(finder)
        leaf = TapeLeaf(level, owner=ref(x))
        before: Tensor | None = None
        outer = node_of(x)
        gathered = getattr(outer, "grad", None)
        if isinstance(outer, TapeLeaf) and gathered is not None:
            source = Gathered(owner, getattr(owner, "name", ""))
            before = self.tracer(self.input(source, gathered.spec))
        leaf.grad = before
        leaf.extra = getattr(outer, "extra", None)  # its hooks
        past = before is not None and gathered._node is not None
        self.lifted[id(leaf)] = Lifted(owner, leaf, before, past)
        return grad_tracer(level, value, leaf)

    def argument(self, x: Tensor, value: Value) -> Tensor:
        """What stands for an argument."""
        tracer = self.tracer(value)
        if not self.records or not self._may_gather(x) or node_of(x) is None:
            return tracer
        source = self.program.sources[value]
        assert isinstance(source, Argument)
        node = id(node_of(x))
        if node not in self.given:  # an argument may be there twice
            self.given[node] = self.lift(x, tracer, Given(source.number))
        return self.given[node]

    def _may_gather(self, x: Any) -> bool:
        """Whether ``.backward()`` may go on from an argument, where a function around this is."""
        if type(x) is GradTracer and self.outer is not None:
            return bool(x.level == self.outer.number | 1)
        return type(x) in PLAIN

    def with_leaf(self, x: Any) -> Any:
        """A plain tensor that requires grad, on the tape of this stage."""
        if type(x) not in PLAIN or node_of(x) is None:
            return x
        found = self.lifted_of.get(id(x))
        if found is None:
            self.refuse_given(x)
            if type(node_of(x)) is not TapeLeaf:
                self.give_up(
                    f"it uses {x.spec!r}, which requires grad and was computed outside of it"
                )
            found = self.lifted_of[id(x)] = (x, self.lift(x, self.tracer(self.capture(x)), x))
        return found[1]

    def refuse_given(self, x: Any) -> None:
        """A leaf from outside is used: it is none of the arguments."""
        if id(node_of(x)) in self.given:
            self.give_up(
                f"it uses {x.spec!r}, which requires grad, as an argument and from outside; "
                f"give it as an argument alone"
            )

    def read_gradient(self, leaf: Any) -> None:
        """Somebody asks for the gradient of a leaf: whether it had one before matters."""
        lifted = self.lifted.get(id(leaf))
        if lifted is None or lifted.dropped:
            return
        lifted.needed = True
        if lifted.before is not None and is_grad_enabled():
            self.program.reads_gradients = True
            if lifted.past:
                self.give_up(
                    "it reads a gradient with a history, of backward(create_graph=True), through "
                    "which others would flow"
                )

    def hooked(self, leaf: Any) -> None:
        """Somebody puts a hook on a leaf: on one from outside it would stay."""
        if id(leaf) in self.lifted:
            self.give_up("it puts a hook on a tensor from outside, which stays; do that outside")

    def write_gradient(self, leaf: Any) -> None:
        """Somebody sets the gradient of a leaf."""
        lifted = self.lifted.get(id(leaf))
        if lifted is None or lifted.needed or lifted.dropped:
            return
        if leaf.grad is lifted.before:
            lifted.dropped = True
        else:  # a pass has added to it: where there was none, what is set may look like no change
            lifted.needed = True
