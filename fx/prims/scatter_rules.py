"""The derivatives of scatters, the same for slices and for single elements."""

from __future__ import annotations

from math import prod

import fx.prims.cumulative as cumulative
import fx.prims.indexing as indexing
import fx.prims.shape as shape_prims
from fx.dtypes import int64
from fx.prims.compare import equal, greater, less, where
from fx.prims.creation import constant_like, full, iota
from fx.prims.families import broadcast_zero
from fx.prims.sorting import argsort


class ScatterRules:
    """jvp and vjp of a scatter; a subclass says what differs between the two kinds.

    Args:
        scatter: gives the scatter primitive.
        gather: gives the primitive whose transpose is the scatter with ``mode="add"``.
    """

    def __init__(self, scatter, gather):
        self.scatter = lambda x, idx, updates, axis, mode: scatter()(
            x, idx, updates, axis=axis, mode=mode
        )
        self.gather = lambda x, idx, axis: gather()(x, idx, axis=axis)

    def winners(self, idx, into, axis):
        """Bool, broadcasts to the updates: which of them no later one replaces under "set"."""
        raise NotImplementedError

    def others(self, idx, updates, n, axis):
        """For each update the product of all other updates of its cell."""
        raise NotImplementedError

    def jvp(self, primals, tangents, *, axis, mode):
        x, idx, updates = primals
        tx, _, tu = tangents
        out = self.scatter(x, idx, updates, axis, mode)
        moving = tu is not None
        tx = broadcast_zero(x) if tx is None else tx
        tu = tu if moving else broadcast_zero(updates)
        if mode in ("set", "add"):
            return out, self.scatter(tx, idx, tu, axis, mode)
        if mode == "mul":
            t = self.scatter(tx, idx, updates, axis, "mul")
            if moving:
                partial = self.gather(x, idx, axis) * self.others(idx, updates, x.shape[axis], axis)
                t = self.scatter(t, idx, tu * partial, axis, "add")
            return out, t
        lost_x, lost_u, count = self.losers(x, idx, updates, out, axis, mode)
        zero = constant_like(0, x)
        tx, tu = where(lost_x, zero, tx), where(lost_u, zero, tu)
        return out, self.scatter(tx, idx, tu, axis, "add") / count

    def vjp(self, needs, x, idx, updates, *, axis, mode):
        for_x, _, for_u = [n is not None for n in needs]
        if not for_x and not for_u:
            return None
        if mode == "add":
            if not for_u:
                return lambda ct: (ct, None, None)
            return lambda ct: (ct if for_x else None, None, self.gather(ct, idx, axis))
        if mode == "set":
            return self.pull_set(for_x, for_u, idx, x._shape, updates._shape, axis)
        if mode == "mul":
            if not for_u:
                return lambda ct: (self.scatter(ct, idx, updates, axis, "mul"), None, None)
            return self.pull_mul(for_x, x, idx, updates, axis)
        return self.pull_extremum(for_x, for_u, x, idx, updates, axis, mode)

    def pull_set(self, for_x, for_u, idx, into, shape, axis):
        """x gets what was not overwritten, an update what it wrote and nobody overwrote."""

        def pullback(ct):
            zero, dx, du = constant_like(0, ct), None, None
            if for_x:
                dx = self.scatter(ct, idx, shape_prims.stretched(zero, shape), axis, "set")
            if for_u:
                du = where(self.winners(idx, into, axis), self.gather(ct, idx, axis), zero)
            return dx, None, du

        return pullback

    def pull_mul(self, for_x, x, idx, updates, axis):
        """Each factor of a cell gets the product of the others."""

        def pullback(ct):
            dx = self.scatter(ct, idx, updates, axis, "mul") if for_x else None
            others = self.others(idx, updates, x._shape[axis], axis)
            return dx, None, self.gather(ct * x, idx, axis) * others

        return pullback

    def pull_extremum(self, for_x, for_u, x, idx, updates, axis, mode):
        """All that tie for the extremum of a cell share its cotangent."""

        def pullback(ct):
            out = self.scatter(x, idx, updates, axis, mode)
            lost_x, lost_u, count = self.losers(x, idx, updates, out, axis, mode)
            share, zero = ct / count, constant_like(0, ct)
            dx = where(lost_x, zero, share) if for_x else None
            du = where(lost_u, zero, self.gather(share, idx, axis)) if for_u else None
            return dx, None, du

        return pullback

    def losers(self, x, idx, updates, out, axis, mode):
        """Which elements and which updates are not the extremum; how many of each cell are."""
        loses = less if mode == "max" else greater
        lost_x = loses(x, out)
        lost_u = loses(updates, self.gather(out, idx, axis))
        zero, one = constant_like(0, x), constant_like(1, x)
        won_x, won_u = where(lost_x, zero, one), where(lost_u, zero, one)
        return lost_x, lost_u, self.scatter(won_x, idx, won_u, axis, "add")


class AlongRules(ScatterRules):
    """Single elements: index and updates have one shape."""

    def winners(self, idx, into, axis):
        device = idx.device.name
        places = iota(shape=idx.shape, axis=axis, start=0, step=1, dtype=int64, device=device)
        nobody = full(shape=into, value=-1, dtype=int64, device=device)
        return equal(self.gather(self.scatter(nobody, idx, places, axis, "set"), idx, axis), places)

    def others(self, idx, updates, n, axis):
        return _others(idx, updates, n, axis)


class SliceRules(ScatterRules):
    """Whole slices: index (*I), updates (*A, *I, *B)."""

    def winners(self, idx, into, axis):
        device = idx.device.name
        places = iota(shape=(prod(idx.shape),), axis=0, start=0, step=1, dtype=int64, device=device)
        places = shape_prims.reshaped(places, idx.shape)
        nobody = full(shape=(into[axis],), value=-1, dtype=int64, device=device)
        last = self.scatter(nobody, idx, places, 0, "set")
        wins = equal(self.gather(last, idx, 0), places)  # (*I)
        return shape_prims.reshaped(wins, (*idx.shape, *[1] * (len(into) - axis - 1)))

    def others(self, idx, updates, n, axis):
        before, after = updates.shape[:axis], updates.shape[axis + idx.ndim :]
        m = int(idx.size)
        flat = shape_prims.reshaped(idx, (m, *[1] * len(after)))
        flat = shape_prims.stretched(flat, (*before, m, *after))
        lines = shape_prims.reshaped(updates, flat.shape)
        return shape_prims.reshaped(_others(flat, lines, n, axis), updates.shape)


def _others(idx, updates, n, axis):
    """For each update the product of all others of its cell, exact where some are zero.

    Sorting brings the updates of a cell together; the products of those before and of those after
    then follow from two recurrences that start anew with each cell.
    """
    at = indexing.wrap_index(idx, size=n)
    order = argsort(at, axis=axis, descending=False)
    cell = indexing.take_along_axis(at, order, axis=axis)
    factor = indexing.take_along_axis(updates, order, axis=axis)
    zero, one = constant_like(0, updates), constant_like(1, updates)
    parts = []
    for reverse in (False, True):
        same = equal(cell, cumulative.shift(cell, axis, -1, reverse))
        neighbour = cumulative.shift(factor, axis, 1, reverse)
        a, b = where(same, neighbour, zero), where(same, zero, one)
        parts.append(cumulative.recurrence(a, b, axis=axis, reverse=reverse))
    back = argsort(order, axis=axis, descending=False)
    return indexing.take_along_axis(parts[0] * parts[1], back, axis=axis)
