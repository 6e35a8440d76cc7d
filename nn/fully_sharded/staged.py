"""A unit inside a function that ``jit`` compiles: its messages are nodes of the one native call.

A pass through the unit gathers its parameters by one ``all_gather`` a dtype, and its pullback sends
their gradients by one ``psum_scatter`` a dtype. Behind the forward pass the whole parameters are
let go of: when the backward pass comes to the results of the unit, they are gathered once more,
and the tracers that pullbacks keep stand for these from then on. So compiled code, whose buffers
live as long as they are read, has the parameters of few units at a time, as the eager kernels do.
Messages are effects, so no pass takes the two gathers for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

import fx.prims.collective as messages
import fx.prims.placing as placing
from fx import tree
from fx.config import is_grad_enabled, modes
from fx.devices import backend
from fx.distributed.agreement import agrees
from fx.distributed.filling import refuse_staging
from fx.errors import BackwardError
from fx.graph.ir import Value
from fx.levels import live
from fx.nn.fully_sharded.reducing import sent_as
from fx.ops.shapes.joining import concat
from fx.prims.mesh import mesh_index
from fx.prims.shape import pad
from fx.tensor import Tensor
from fx.transforms.application import Application
from fx.transforms.checkpoint import Run

collective: Any = backend("cpu").between_ranks()
NAME = "fully_shard"


class Passes:
    """The passes through units while one function is staged.

    Attributes:
        running: the modules whose forward passes run, the outermost first.
        open: by the id of a unit, the pass whose whole parameters are there.
        again: whether a checkpointed function runs for its gradient at this moment.
        kept: by the id of a unit, its passes in checkpointed functions, which run again.
    """

    def __init__(self) -> None:
        self.running: list[Any] = []
        self.open: dict[int, Pass] = {}
        self.again = False
        self.kept: dict[int, list[Pass]] = {}

    def of(self, unit: Any) -> Pass:
        """The pass whose whole parameters a module of this unit gets."""
        now = self.open.get(id(unit))
        if now is None or not now.serves():
            now = self._again(unit) if self.again else None
            if now is None:
                now = Pass(unit)
                if modes.level != now.stage.number and not self.again:
                    self.kept.setdefault(id(unit), []).append(now)
            self.open[id(unit)] = now
        return now

    def close(self, unit: Any) -> None:
        """A run for the gradient is through: the next one is that of another pass."""
        if self.open[id(unit)] in self.kept.get(id(unit), ()):
            del self.open[id(unit)]

    def _again(self, unit: Any) -> Pass | None:
        """The pass that runs again: the last that has not, since backward comes to it first."""
        found = [p for p in self.kept.get(id(unit), ()) if p.of_now()]
        now = next((p for p in reversed(found) if not p.live), found[-1] if found else None)
        if now is not None:
            now.enter()
        return now


def passes() -> Passes:
    """Those of the function that is being staged; inside of a transform they are refused.

    A checkpointed function is none of these: it keeps what it meets, such as whole parameters.
    """
    stage = modes.stage
    if getattr(stage, "program", None) is None:
        refuse_staging(stage, f"{NAME} inside of a loop or branch")
    found = vars(stage).setdefault(NAME, Passes())  # which end with it
    number, found.again = modes.level, False
    while number != stage.number and not found.again:
        level = live[number]
        if not isinstance(level, Run):  # what is gathered would end with that transform
            refuse_staging(stage, f"{NAME} inside of {level.transform}")
        assert isinstance(level, Run)
        number, found.again = level.below, level.again
    return found  # type: ignore[no-any-return]


class Pass:
    """One forward pass through a unit, and what its backward pass needs.

    Args:
        unit: what has the cells and places.
    """

    def __init__(self, unit: Any) -> None:
        if unit._shown:
            refuse_staging(modes.stage, f"{NAME}'s unshard()")
        if any(cell.value._a.mesh != unit.mesh for cell in unit.cells):
            refuse_staging(modes.stage, f"{NAME} of parameters that are cut by tensor parallel")
        if not unit.syncs or unit._waiting:
            refuse_staging(modes.stage, f"{NAME}'s set_requires_gradient_sync(False)")
        self.unit, self.stage = unit, modes.stage
        self.arrays = [cell.value._a for cell in unit.cells]  # where parts lie, and their shapes
        self.parts = self._parts()
        self.shown, self.live = 0, True
        self.records = _records(unit)
        cells = [cell.read() for cell in unit.cells]
        self.whole = _Gather(self)(*cells) if self.records else self.gathered()
        self.tracers = [self.stage.lower(x) for x in self.whole]

    def _parts(self) -> list[Tensor]:
        """What the cells hold, without a tape."""
        return [self.stage.lower(cell.read()) for cell in self.unit.cells]

    def serves(self) -> bool:
        """Whether what was gathered is there, what the cells hold now, and recorded as now."""
        return self.live and self.records == _records(self.unit) and self.of_now()

    def of_now(self) -> bool:
        """Whether what was gathered is what the cells hold now."""
        return all(a.ref is b.ref for a, b in zip(self.parts, self._parts(), strict=True))

    # in and out of the modules ------------------------------------------------------------------

    def show(self) -> None:
        """Let the modules have the whole parameters."""
        self.shown += 1
        for module, name, i in self.unit.places:
            module._parameters[name] = self.whole[i]

    def hide(self) -> bool:
        """Let the modules have their cells; whether nobody is left inside."""
        self.shown -= 1
        if self.shown:
            return False
        for module, name, i in self.unit.places:
            module._parameters[name] = self.unit.cells[i]
        return True

    def release(self, out: Any) -> Any:
        """Let go of the whole parameters; the results, behind which backward gathers again."""
        self.live = False
        if not self.records:
            return out
        leaves, treedef = tree.flatten(out)
        places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        for i, x in zip(places, _Enter(self)(*[leaves[i] for i in places])):
            leaves[i] = x
        return tree.unflatten(treedef, leaves)

    def enter(self) -> None:
        """The backward pass comes to the results: what stood for whole parameters stands for new
        ones, and so does what was made of them alone, as a transposed weight."""
        if self.live:
            return
        self.live = True
        now = [self.stage.lower(x).ref for x in self.gathered()]
        known: dict[Value, Value | None] = dict(
            zip([x.ref for x in self.tracers], now, strict=True)
        )
        for held, value in [*self.stage.made]:
            tracer = held()
            if tracer is not None and tracer.ref is value:
                new = self._renewed(value, known)
                if new is not None and new is not value:
                    tracer.ref = new
                    self.stage.note(tracer, new)

    def _renewed(self, value: Value, known: dict[Value, Value | None]) -> Value | None:
        """The same value of the new parameters; None: it depends on something else, or costs."""
        if value.constant is not None:
            return value
        if value in known:
            return known[value]
        known[value] = None
        node = value.node
        if node is not None and node.primitive.kind in ("view", "move", "strided", "elementwise"):
            inputs = [self._renewed(v, known) for v in node.inputs]
            if None not in inputs and any(v.constant is None for v in node.inputs):
                made = self.stage.emit(
                    node.primitive, [self.stage.tracer(v) for v in inputs], node.params
                )
                known.update(zip(node.outs, [x.ref for x in _several(made)], strict=True))
        return known[value]

    # messages -----------------------------------------------------------------------------------

    def gathered(self) -> tuple[Tensor, ...]:
        """The whole parameters."""
        ranks = self.arrays[0].mesh.ranks(self.unit.axis)
        rows, kinds = [], {}
        for i, (part, a) in enumerate(zip(self.parts, self.arrays)):
            local = _local(part, a)
            dtype = self.unit.param_dtype
            if dtype is not None and local.is_floating_point():
                local = local.astype(dtype)
            rows.append(_padded(local, _length(a, ranks)))
            kinds.setdefault(local.dtype, []).append(i)
        out: list[Any] = [None] * len(rows)
        for members in kinds.values():
            everyone = _all_gather(concat([rows[i].reshape(-1) for i in members]), ranks)
            at = 0
            for i in members:  # everyone (ranks, elements of all parts)
                a, count = self.arrays[i], rows[i].size
                here = everyone[:, at : at + count]
                at += count
                shape = (ranks.size * rows[i].shape[0], *a.shape[1:])
                out[i] = here.reshape(shape)[: a.shape[0]]
        return tuple(out)

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """The gradients of the parts, from those of the whole parameters."""
        unit = self.unit
        trained = [i for i, cell in enumerate(unit.cells) if cell.requires_grad]
        given = [i for i in trained if cts[i] is not None]
        mesh = self.arrays[0].mesh
        if given != trained:  # on the other ranks too, or the call is refused
            agrees(mesh.ranks(unit.axis), NAME, f"gradients of the parameters {given}")
        kinds: dict[Any, list[int]] = {}
        for i in given:
            kinds.setdefault(sent_as(self.arrays[i], unit.reduce_dtype), []).append(i)
        out: list[Any] = [None] * len(cts)
        for sent, members in kinds.items():
            wide = collective.widen(np.empty(0, sent)).dtype
            row = self._summed([cts[i].astype(sent).astype(wide) for i in members], members)
            divisor = prod(mesh.sizes) if unit.divisor is None else unit.divisor
            at = 0
            for i in members:
                a = self.arrays[i]
                mean = (row[at : at + a.local.size] / divisor).astype(sent).astype(a.dtype)
                at += _length(a, mesh.ranks(unit.axis)) * prod(a.shape[1:])
                out[i] = placing.from_local(
                    mean.reshape(a.local.shape),
                    mesh=a.mesh, placements=a.placements, shape=a.shape, home=None,
                )  # fmt: skip
        return out

    def _summed(self, cts: list[Tensor], members: list[int]) -> Tensor:
        """This rank's row of the sum over all ranks."""
        mesh, axis = self.arrays[0].mesh, self.unit.axis
        ranks = mesh.ranks(axis)
        rows = []
        for ct, i in zip(cts, members):
            full = _padded(ct, ranks.size * _length(self.arrays[i], ranks))
            rows.append(full.reshape(ranks.size, -1))
        row = _reduce_scatter(concat(rows, axis=1), ranks)
        for m in range(len(mesh.sizes)):
            others = mesh.ranks(m)
            if m != axis and others.size > 1:
                (row,) = messages.psum(row, axis=others.key, size=others.size)
        return row


class _Inlined(Application):
    """An operation with a pullback of its own, which is no node: what it does is staged."""

    def __init__(self, one: Pass) -> None:
        super().__init__(NAME)
        self.one = one

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        if all(x.level <= self.one.stage.number for x in args):
            return tuple(self.run(*args))
        return super().__call__(*args)

    def forward(self, args: Sequence[Tensor], needs: Sequence[Any]) -> tuple[Any, Any]:
        return self.run(*args), lambda cts, *saved: self.pull(cts)

    def remember(self, args: Sequence[Tensor], needs: Sequence[Any]) -> Any:
        def refuse() -> NoReturn:
            raise BackwardError(f"{NAME}: gradients of a unit have no derivatives of their own")

        return refuse

    def cotangent_specs(self, outs: Sequence[Tensor]) -> tuple[Any, ...]:
        return (None,) * len(outs)

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        """The cotangents of the arguments."""
        raise NotImplementedError


class _Gather(_Inlined):
    """Parts of parameters to whole ones; back, whole gradients to parts of their means."""

    def run(self, *parts: Tensor) -> tuple[Tensor, ...]:
        return self.one.gathered()

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        return self.one.pull(cts)

    def wants_cotangent(self, index: int, out: Tensor) -> bool:
        return bool(self.one.unit.cells[index].requires_grad)


class _Enter(_Inlined):
    """The results of a unit as they are; back, its parameters are made whole first."""

    def run(self, *outs: Tensor) -> tuple[Tensor, ...]:
        return outs

    def pull(self, cts: Sequence[Any]) -> list[Any]:
        self.one.enter()
        return list(cts)


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def _records(unit: Any) -> bool:
    return is_grad_enabled() and any(cell.requires_grad for cell in unit.cells)


# parts --------------------------------------------------------------------------------------------


def _local(part: Tensor, a: Any) -> Tensor:
    """The part of this rank, (rows, …)."""
    return placing.to_local(  # type: ignore[no-any-return]
        part, mesh=a.mesh, placements=a.placements, shape=a.local.shape, home=None
    )


def _length(a: Any, ranks: Any) -> int:
    """Rows that the largest part has."""
    return -(-a.shape[0] // ranks.size)  # type: ignore[no-any-return]


def _padded(x: Tensor, length: int) -> Tensor:
    """With zeros behind along the first axis."""
    more = length - x.shape[0]
    if not more:
        return x
    nothing = (0,) * x.ndim
    zero = x.new_zeros(())
    return pad(x, zero, low=nothing, high=(more, *nothing[1:]), inside=nothing)  # type: ignore[no-any-return]


def _all_gather(x: Tensor, ranks: Any) -> Tensor:
    if ranks.size == 1:
        return x[None]
    return messages.all_gather(x, _index(ranks), axis=ranks.key, size=ranks.size)  # type: ignore[no-any-return]


def _reduce_scatter(rows: Tensor, ranks: Any) -> Tensor:
    if ranks.size == 1:
        return rows[0]
    return messages.psum_scatter(rows, _index(ranks), axis=ranks.key, size=ranks.size)  # type: ignore[no-any-return]


def _index(ranks: Any) -> Tensor:
    return mesh_index(axis=ranks.key, device="cpu")  # type: ignore[no-any-return]
