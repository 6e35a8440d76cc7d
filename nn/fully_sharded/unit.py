"""A unit: parameters that are gathered by one message, and whose gradients are sent by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fx.autograd.function import Function, once_differentiable
from fx.config import is_grad_enabled
from fx.distributed.placed import Placed
from fx.nn.fully_sharded.gathering import Gathered, before
from fx.nn.fully_sharded.reducing import means
from fx.tensor import Tensor, new_tensor


class Unit:
    """The parameters of some modules, of which this rank has parts.

    Args:
        places: module and name of each place that a parameter has; tied ones have several.
        mesh: the ranks that have parts.
        axis: of the mesh, along which they are cut.
        param_dtype: of the whole parameters; None: that of the parts.
        reduce_dtype: in which gradients are sent; None: that of the whole parameters.
    """

    def __init__(
        self,
        places: Sequence[tuple[Any, str]],
        mesh: Any,
        axis: int,
        param_dtype: Any,
        reduce_dtype: Any,
    ) -> None:
        self.mesh, self.axis, self.param_dtype = mesh, axis, param_dtype
        self.reduce_dtype = param_dtype if reduce_dtype is None else reduce_dtype
        self.cells: list[Any] = []
        self.places: list[tuple[Any, str, int]] = []
        known: dict[int, int] = {}
        for module, name in places:
            cell = module._parameters[name]
            i = known.setdefault(id(cell), len(self.cells))
            if i == len(self.cells):
                self.cells.append(cell)
            self.places.append((module, name, i))
        self.syncs = True  # whether a backward pass sends the gradients
        self.reshard_after_backward = True
        self.divisor: float | None = None
        self._now: Gathered | None = None
        self._whole: tuple[Tensor, ...] = ()
        self._records = False
        self._shown = 0  # how many forward passes use the whole ones at this moment
        self._held = False  # whether ``unshard`` does
        self._spent = False  # whether a backward pass has gone through them
        self._waiting: list[Any] = []  # gradients of passes that did not send theirs

    # forward ------------------------------------------------------------------------------------

    def show(self) -> None:
        """Let the modules have the whole parameters."""
        if not self.cells:
            return
        self._shown += 1
        parts = [cell.read() for cell in self.cells]
        if self._shown > 1 and not (self._held and self._shown == 2):
            return  # inside of a forward pass: what that one has
        records = is_grad_enabled() and any(cell.requires_grad for cell in self.cells)
        there = self._now is not None and self._now.of(parts)
        if not there or records != self._records or self._spent:
            arrays = [x._a for x in self._whole] if there else None
            self._now = Gathered(parts, self.mesh, self.axis, self.param_dtype, arrays)
            self._records, self._spent = records, False
            found = _Gather.apply(self, self._now, *self.cells)
            self._whole = found if isinstance(found, tuple) else (found,)
            self._now.hand_out(self._whole)
        for module, name, i in self.places:
            module._parameters[name] = self._whole[i]

    def hold(self) -> None:
        """Let the modules have the whole parameters until ``let_go``."""
        if not self._held and self.cells:
            self._held = True
            self.show()

    def let_go(self, release: bool) -> None:
        """What ``hold`` asked for is not needed any more."""
        if self._held:
            self._held = False
            self.hide(release)

    def hide(self, release: bool) -> None:
        """Let the modules have the parameters of which this rank has parts."""
        if not self._shown:
            return
        self._shown -= 1
        if self._shown:
            return
        for module, name, i in self.places:
            module._parameters[name] = self.cells[i]
        if release:
            self.release()

    def release(self) -> None:
        """Hold the parts alone; pullbacks of passes before gather again."""
        if self._now is not None and not self._shown:
            self._now.release()
            self._now, self._whole = None, ()

    # backward -----------------------------------------------------------------------------------

    def pull(self, gathered: Gathered, cts: Sequence[Any]) -> list[Any]:
        """The gradients of the parts, from those of the whole parameters."""
        held = [
            None if ct is None else self._of_unit(ct, array)
            for ct, array in zip(cts, gathered.held)
        ]
        if self._waiting:
            held = [_added(a, b) for a, b in zip(self._waiting, held)]
        if self.reshard_after_backward and not self._shown:
            gathered.release()
            if gathered is self._now:
                self._now, self._whole = None, ()
        self._spent = self._spent or gathered is self._now
        if not self.syncs:
            self._waiting = held
            return [None] * len(held)
        self._waiting = []
        trained = [i for i, cell in enumerate(self.cells) if cell.requires_grad]
        found = means(
            [gathered.parts[i] for i in trained], [held[i] for i in trained],
            self.axis, self.reduce_dtype, self.divisor, trained,
        )  # fmt: skip
        out: list[Any] = [None] * len(held)
        for i, array in zip(trained, found):
            if array is not None:
                like = gathered.held[i]
                out[i] = new_tensor(Placed(array.local, like.shape, like.mesh, like.placements))
        return out

    def _of_unit(self, ct: Tensor, array: Any) -> Any:
        """This rank's addend of a gradient, an array of the CPU."""
        if array.mesh == self.mesh:
            return ct._a
        _, placements = before(array, self.mesh)
        return ct.redistribute(array.mesh.outer, placements).to_local()._a  # type: ignore[attr-defined]


def as_now(units: Sequence[Unit]) -> Callable[[], Any]:
    """A context in which modules have the parameters that they have at this moment."""
    had = [(m, n, m._parameters[n]) for unit in units for m, n, _ in unit.places]

    @contextmanager
    def shown() -> Iterator[None]:
        before = [m._parameters[n] for m, n, _ in had]
        try:
            for m, name, value in had:
                m._parameters[name] = value
            yield
        finally:
            for (m, name, _), value in zip(had, before):
                m._parameters[name] = value

    return shown


def _added(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return (new_tensor(a) + new_tensor(b))._a


class _Gather(Function):
    """Parts of parameters to whole ones; back, whole gradients to parts of their means."""

    @staticmethod
    def forward(ctx: Any, unit: Unit, gathered: Gathered, *parts: Tensor) -> Any:
        ctx.unit, ctx.gathered = unit, gathered
        ctx.set_materialize_grads(False)
        made = tuple([new_tensor(a) for a in gathered.arrays()])
        frozen = [w for w, cell in zip(made, unit.cells) if not cell.requires_grad]
        ctx.mark_non_differentiable(*frozen)
        return made

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *cts: Any) -> Any:
        return (None, None, *ctx.unit.pull(ctx.gathered, cts))
