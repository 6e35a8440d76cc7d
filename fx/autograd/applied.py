"""A ``Function`` applied to tensors: how its forward and backward meet the levels.

``forward`` runs once, below all levels, on plain tensors (on lanes inside ``vmap``). What the
context keeps is noted as "argument i", "result j" or a constant, and each level that records the
call makes a context of its own from these notes, with its own arguments and results. So every
nesting of transforms finds the user's rule, and no context keeps its own node alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fx.autograd.call import Call, Out
from fx.autograd.context import Context, Notes, context_of, notes_of
from fx.config import NEVER, modes, no_grad
from fx.dtypes import INEXACT, bool_
from fx.errors import BackwardError, ShapeError
from fx.ops.convert import as_tensor
from fx.prims.compare import astype
from fx.prims.complex import repaired
from fx.prims.creation import zeros_like_spec
from fx.prims.families import broadcast_shapes
from fx.prims.shape import reshape, sum_to
from fx.spec import TensorSpec
from fx.tape import CELL
from fx.tensor import Tensor, bare
from fx.transforms.application import Application, Pullback, in_lanes, transposed
from fx.transforms.batching import batch_tracer, lanes_to
from fx.transforms.rules import cotangents_of_lanes

Tensors = Sequence[Tensor]
Maybe = Tensor | None
_NO_ZEROS = TensorSpec((), bool_)  # the spec of a cotangent that stays None


def _of_then(x: Tensor) -> Tensor:
    """What a tensor was when it was recorded, if it was written since."""
    return x.read() if x.written else x


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told: the number of lanes, and PyTorch's ``randomness``."""

    batch_size: int
    randomness: str


class Applied(Application):
    """A Function, bound: below all levels it runs the user's ``forward``."""

    ruled = True

    def __init__(self, call: Call) -> None:
        super().__init__(call.cls.__name__)
        self.call = call
        self.closed = getattr(call.cls, "_is_closed", False)
        self.saves: tuple[int, ...] = ()
        self.notes: Any = None  # after a run: what the context kept, for the level above

    def run(self, *args: Tensor) -> Tensors:
        call = self.call
        ctx = Context(call.wanted)
        inputs = call.filled(args)
        with no_grad():
            if call.given("setup_context"):
                out = call.cls.forward(*inputs)
                call.cls.setup_context(ctx, tuple(inputs), out)
            else:
                out = call.cls.forward(ctx, *inputs)
        outs = call.taken_apart(out)
        self._note(ctx, args, outs)
        # as objects of their own: a result may be an argument, or be kept
        return [bare(o) if type(o) is Tensor else o for o in outs]

    def _note(self, ctx: Context, args: Tensors, outs: Tensors) -> None:
        call = self.call
        call.materialize = ctx._materialize
        call.constant = frozenset(
            i for i, o in enumerate(outs) if any(o is x for x in ctx._non_differentiable)
        )
        self.notes = notes_of(ctx, args, outs)
        self.saves = self.notes.outs

    # recording ----------------------------------------------------------------------------------

    def forward(self, args: Tensors, needs: Sequence[Any]) -> tuple[Tensors, Pullback]:
        outs = self(*args)
        return outs, self._pullback(args, needs)

    def remember(self, args: Tensors, needs: Sequence[Any]) -> Callable[[], Pullback]:
        pullback = self._pullback(args, needs)
        return lambda: pullback

    def _pullback(self, args: Tensors, needs: Sequence[Any]) -> Pullback:
        notes: Notes = self.notes
        inputs = {i: args[i] for i in notes.ins}
        specs = [x.spec for x in args]
        needed = [n is not None for n in needs]

        def pullback(cts: list[Any], *saved: Tensor) -> list[Maybe]:
            return self.pull(notes, inputs, dict(zip(notes.outs, saved)), cts, specs, needed)

        return pullback

    def pull(
        self,
        notes: Notes,
        inputs: dict[int, Tensor],
        outs: dict[int, Tensor],
        cts: list[Any],
        specs: Sequence[TensorSpec],
        needed: Sequence[bool],
    ) -> list[Maybe]:
        """The user's ``backward``, in a context made of one level's arguments and results."""
        call = self.call
        inputs = {i: _of_then(x) for i, x in inputs.items()}
        kept = notes.with_kept([_of_then(x) for x in notes.kept])
        ctx = context_of(kept, inputs, outs, call.aligned(needed, False))
        rule = call.cls.backward if call.given("backward") else call.cls.vjp
        pulling, modes.pulling = modes.pulling, NEVER
        try:
            found = rule(ctx, *call.by_result([repaired(ct) for ct in cts]))
            parts = found if isinstance(found, tuple | list) else (found,)
            parts = [_of_then(x) if isinstance(x, Tensor) else x for x in parts]  # as it left them
        finally:
            modes.pulling = pulling
        count = len(call.args)
        if len(parts) < count or any(p is not None for p in parts[count:]):
            raise BackwardError(
                f"{self.called}.backward returned {len(parts)} gradients for the {count} arguments "
                f"of forward; return one for each, None where there is none"
            )
        for i, part in enumerate(parts[:count]):
            if part is not None and i not in call.places:
                raise BackwardError(
                    f"{self.called}.backward returned a gradient for argument {i} of forward, "
                    f"which is no tensor; return None there"
                )
        return [
            repaired(_as_like(parts[i], s, f"{self.called}.backward: the gradient of argument {i}"))
            if wanted and s.dtype in INEXACT
            else None
            for i, s, wanted in zip(call.places, specs, needed)
        ]

    def cotangent_specs(self, outs: Tensors) -> tuple[TensorSpec, ...]:
        if self.call.materialize:
            return super().cotangent_specs(outs)
        return tuple([_NO_ZEROS] * len(outs))

    def wants_cotangent(self, index: int, out: Tensor) -> bool:
        return index not in self.call.constant and out.dtype in INEXACT

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        return AppliedToLanes(self, size, axis_name, dims)

    # the other transforms -----------------------------------------------------------------------

    def jvp(self, primals: Tensors, tangents: Sequence[Maybe]) -> tuple[Tensors, list[Maybe]]:
        outs = self(*primals)
        floating = [i for i, o in enumerate(outs) if self.wants_cotangent(i, o)]
        inputs, results = dict(enumerate(primals)), dict(enumerate(outs))
        rule = self.push if self.call.given("jvp") else self._push_by_pull
        found = rule(self.notes, inputs, results, tangents)
        return outs, [t if i in floating else None for i, t in enumerate(found)]

    def push(
        self,
        notes: Notes,
        inputs: dict[int, Tensor],
        outs: dict[int, Tensor],
        tangents: Sequence[Maybe],
    ) -> list[Maybe]:
        """The user's ``jvp``."""
        call = self.call
        needed = call.aligned([t is not None for t in tangents], False)
        ctx = context_of(notes, inputs, outs, needed)
        ctx.saved_tensors = ctx._for_forward or ctx.saved_tensors
        if call.materialize:
            tangents = [
                zeros_like_spec(inputs[i].spec) if t is None else t for i, t in enumerate(tangents)
            ]
        found = call.cls.jvp(ctx, *call.aligned(tangents))
        parts = found if isinstance(found, tuple) else (found,)
        if len(parts) != len(call.template):
            raise BackwardError(
                f"{self.called}.jvp returned {len(parts)} tangents for {len(call.template)} results"
            )
        what = f"{self.called}.jvp: a tangent"
        return [
            _as_like(p, outs[x.index].spec, what)
            for p, x in zip(parts, call.template)
            if type(x) is Out
        ]

    def _push_by_pull(
        self,
        notes: Notes,
        inputs: dict[int, Tensor],
        outs: dict[int, Tensor],
        tangents: Sequence[Maybe],
    ) -> list[Maybe]:
        """Tangents by the transpose of ``backward``."""
        specs = [x.spec for x in inputs.values()]
        needed = [t is not None for t in tangents]
        moving = [i for i, n in enumerate(needed) if n]
        floating = [i for i, o in outs.items() if self.wants_cotangent(i, o)]

        def pull(*given: Tensor) -> list[Tensor]:
            cts: list[Any] = [None] * len(outs)
            for i, ct in zip(floating, given):
                cts[i] = ct
            found = self.pull(notes, inputs, outs, cts, specs, needed)
            return [zeros_like_spec(specs[i]) if found[i] is None else found[i] for i in moving]

        _, push = transposed(pull, [outs[i].spec for i in floating])
        pushed: list[Maybe] = [None] * len(outs)
        for i, t in zip(floating, push([tangents[i] for i in moving])):
            pushed[i] = t
        return pushed

    def batch(
        self, level: Any, args: Tensors, dims: Sequence[int | None]
    ) -> tuple[Tensors, Sequence[int | None]]:
        if self.call.given("vmap") and type(self) is Applied:
            return self._by_users_vmap(level, args, dims)
        child = AppliedToLanes(self, level.size, level.axis_name, dims)
        outs = child(*args)
        kept = [batch_tracer(level.number, x, d) for x, d in zip(child.notes.kept, child.kept_dims)]
        self.notes, child.notes = child.inner_notes.with_kept(kept), None
        return outs, (0,) * len(outs)

    def _by_users_vmap(
        self, level: Any, args: Tensors, dims: Sequence[int | None]
    ) -> tuple[Tensors, Sequence[int | None]]:
        call, cls = self.call, self.call.cls
        if not call.given("setup_context"):
            raise TypeError(
                f"{cls.__name__} has a vmap of its own, so forward cannot fill its context; write "
                f"forward(*args) and setup_context(ctx, inputs, output)"
            )
        info = VmapInfo(level.size, "different")
        out, out_dims = cls.vmap(info, call.aligned(dims), *call.filled(args))
        outs = call.taken_apart(out)
        spread = [out_dims] if call.single else [
            d for d, x in zip(out_dims, call.template) if type(x) is Out
        ]  # fmt: skip
        lanes = [batch_tracer(level.number, o, d) for o, d in zip(outs, spread)]
        traced = [batch_tracer(level.number, x, d) for x, d in zip(args, dims)]
        ctx = Context(call.wanted)
        with no_grad():
            cls.setup_context(ctx, tuple(call.filled(traced)), call.assembled(lanes))
        self._note(ctx, traced, lanes)
        return outs, spread


class AppliedToLanes(Applied):
    """A Function bound to a batch: its forward and backward run on lanes."""

    def __init__(
        self, inner: Applied, size: int, axis_name: Any, dims: Sequence[int | None]
    ) -> None:
        super().__init__(inner.call)
        self.inner, self.size, self.axis_name, self.dims = inner, size, axis_name, dims
        self.inner_notes: Any = None
        self.kept_dims: list[int | None] = []

    def run(self, *args: Tensor) -> Tensors:
        counts: list[int] = []

        def lane(*xs: Tensor) -> list[Tensor]:
            outs = self.inner.run(*xs)
            counts.append(len(outs))
            return [*outs, *self.inner.notes.kept]

        every, dims = in_lanes(lane, self.size, self.axis_name, args, self.dims)
        n = counts[0]
        self.inner_notes, self.kept_dims = self.inner.notes.with_kept([]), dims[n:]
        self.inner.notes = None
        self.notes = self.inner_notes.with_kept(every[n:])
        self.saves = self.inner_notes.outs
        return [lanes_to(x, d, 0, self.size) for x, d in zip(every[:n], dims)]

    def pull(
        self,
        notes: Notes,
        inputs: dict[int, Tensor],
        outs: dict[int, Tensor],
        cts: list[Any],
        specs: Sequence[TensorSpec],
        needed: Sequence[bool],
    ) -> list[Maybe]:
        own = [_without(s, d) for s, d in zip(specs, self.dims)]
        values, dims, parts = self._packed(notes, inputs, outs)

        def lane(*xs: Any) -> Sequence[Maybe]:
            return self.inner.pull(*parts(xs), list(xs[len(values) :]), own, needed)

        ct_dims = [None if ct is None else 0 for ct in cts]
        return cotangents_of_lanes(
            lane, self.size, self.axis_name, [*values, *cts], [*dims, *ct_dims], self.dims,
            [s.shape for s in specs],
        )  # fmt: skip

    def push(
        self,
        notes: Notes,
        inputs: dict[int, Tensor],
        outs: dict[int, Tensor],
        tangents: Sequence[Maybe],
    ) -> list[Maybe]:
        values, dims, parts = self._packed(notes, inputs, outs)

        def lane(*xs: Any) -> Sequence[Maybe]:
            return self.inner.push(*parts(xs), list(xs[len(values) :]))

        t_dims = [None if t is None else d for t, d in zip(tangents, self.dims)]
        found, found_dims = in_lanes(
            lane, self.size, self.axis_name, [*values, *tangents], [*dims, *t_dims]
        )
        return [
            None if t is None else lanes_to(t, d, 0, self.size) for t, d in zip(found, found_dims)
        ]

    def _packed(
        self, notes: Notes, inputs: dict[int, Tensor], outs: dict[int, Tensor]
    ) -> tuple[list[Any], list[int | None], Any]:
        """What a context is made of, flat, where its lanes lie, and the way back for one lane."""
        values = [*inputs.values(), *outs.values(), *notes.kept]
        dims = [*[self.dims[i] for i in inputs], *[0] * len(outs), *self.kept_dims]
        a, b = len(inputs), len(inputs) + len(outs)
        inner = self.inner_notes

        def parts(xs: Sequence[Any]) -> tuple[Notes, dict[int, Tensor], dict[int, Tensor]]:
            kept = list(xs[b : len(values)])
            return inner.with_kept(kept), dict(zip(inputs, xs[:a])), dict(zip(outs, xs[a:b]))

        return values, dims, parts


def _without(spec: TensorSpec, dim: int | None) -> TensorSpec:
    """The spec of one lane."""
    shape = spec.shape
    return spec if dim is None else spec.with_(shape=(*shape[:dim], *shape[dim + 1 :]))


def _as_like(value: Any, spec: TensorSpec, what: str) -> Maybe:
    """A gradient in the shape and dtype of its argument, as PyTorch's engine makes it fit.

    Raises:
        ShapeError: if it cannot be summed to that shape.
    """
    if value is None:
        return None
    x = as_tensor(value, dtype=None if isinstance(value, Tensor) else spec.dtype)
    if x.level == CELL:
        x = x.read()
    if x.dtype != spec.dtype:
        x = astype(x, dtype=spec.dtype)
    if x.shape != spec.shape:
        try:
            fits = broadcast_shapes("", x.shape, spec.shape) == x.shape
        except ShapeError:
            fits = False
        if not fits:
            raise ShapeError(f"{what} has shape {x.shape}, expected {spec.shape}")
        ones = (1,) * (x.ndim - len(spec.shape))
        x = reshape(sum_to(x, shape=(*ones, *spec.shape)), shape=spec.shape)
    return x
