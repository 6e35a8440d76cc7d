"""The laws of sharding rules, and a search for what the rules leave out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np

from fx.dtypes import INEXACT
from fx.primitive import Primitive
from fx.prims.factors import WHOLE, Factors, alike, chunk, factors_of
from fx.prims.places import looked_up
from fx.prims.sampling import Sample
from fx.spec import TensorSpec
from fx.testing.case import Arrays, Mismatch, as_tuple
from fx.testing.closeness import expect_all_close, expect_close
from fx.testing.law import law

_JOINS = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
_TOLERANCE = 1e-11
_COUNTS = (2, 3)
_ENOUGH = 4  # samples that tell


def factors(primitive: Primitive, sample: Sample) -> Factors:
    """What the rule says of a sample."""
    return factors_of(primitive, [TensorSpec(a.shape, a.dtype) for a in sample.args], sample.params)


def _run(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Arrays:
    return [np.asarray(a) for a in as_tuple(primitive.cpu(*args, **params))]


def _part(array: np.ndarray, names: str, letter: str, count: int, index: int) -> np.ndarray:
    for axis in [i for i, c in enumerate(names) if c == letter]:
        start, stop = chunk(array.shape[axis], count, index)
        array = array[(slice(None),) * axis + (slice(start, stop),)]
    return array


def parts(
    primitive: Primitive, sample: Sample, told: Factors, letter: str, count: int
) -> Iterator[Arrays]:
    """The results of each part along a factor that has an element."""
    whole = as_tuple(primitive.spec(*[TensorSpec(a.shape, a.dtype) for a in sample.args],
                                    **sample.params))  # fmt: skip
    for index in range(count):
        args = [_part(a, n, letter, count, index) for a, n in zip(sample.args, told.operands)]
        cut = _sizes(told, letter, args, ())
        if 0 in cut:
            continue
        if told.summed(letter) and index:
            for i in told.added:
                args[i] = args[i] if letter in told.operands[i] else np.zeros_like(args[i])
        params = sample.params
        if told.local is not None:
            empty = [np.empty(s.shape, bool) for s in whole]
            shapes = [_part(e, n, letter, count, index) for e, n in zip(empty, told.results)]
            params = told.local(params, [a.shape for a in args], [e.shape for e in shapes])
        if letter == told.places:
            size = sample.args[0].shape[told.operands[0].index(letter)]
            kernel = partial(primitive.cpu, **params)
            yield [looked_up(kernel, told, *args, size, chunk(size, count, index)[0])]
            continue
        yield _run(primitive, args, params)


def _sizes(told: Factors, letter: str, args: Sequence[Any], outs: Sequence[Any]) -> list[int]:
    pairs = [*zip(told.operands, args), *zip(told.results, outs)]
    return [n for names, a in pairs for c, n in zip(names, a.shape, strict=True) if c == letter]


@law("sharding", "what parts along a factor give, joined = what the whole gives")
def parts_are_the_whole(primitive: Primitive, sample: Sample) -> None:
    """Along each factor, in two and in three parts, uneven ones too."""
    if primitive.effectful or not sample.args:
        return
    told = factors(primitive, sample)
    want = _run(primitive, sample.args, sample.params)
    ranks = [len(n) for n in told.operands], [len(n) for n in told.results]
    if ranks != ([a.ndim for a in sample.args], [a.ndim for a in want]):
        raise Mismatch(f"{told} does not fit {ranks}")
    for letter, count in product(told.letters(), _COUNTS):
        sizes = _sizes(told, letter, sample.args, want)
        if sizes[0] < 2 or not alike(sizes, count):
            continue
        found = list(parts(primitive, sample, told, letter, count))
        joined = []
        for i, names in enumerate(told.results):
            of_result = [outs[i] for outs in found]
            if letter in names:
                joined.append(np.concatenate(of_result, names.index(letter)))
            elif told.summed(letter):
                joined.append(reduce(_JOINS[told.op], of_result))
            else:
                expect_all_close(of_result[1:], of_result[:-1], _TOLERANCE, f"parts along {letter}")
                joined.append(of_result[0])
        expect_all_close(joined, want, _TOLERANCE, f"{count} parts along {letter} of {told}")


@law("sharding", "addends of what is linear give addends of the results")
def addends_are_the_sum(primitive: Primitive, sample: Sample) -> None:
    """For each group of operands that the rule calls linear."""
    if primitive.effectful or not sample.args:
        return
    told = factors(primitive, sample)
    for group in told.linear:
        first, rest, both = _addends(sample.args, group)
        found = [_run(primitive, args, sample.params) for args in (first, rest)]
        want = _run(primitive, both, sample.params)
        expect_all_close([*map(np.add, *found)], want, _TOLERANCE, f"operands {group}")


def _addends(args: Sequence[np.ndarray], group: Iterable[int]) -> tuple[Arrays, Arrays, Arrays]:
    """The arguments, others in the places of a group, and the sums of both."""
    others = [np.asarray(np.roll(a, 1) * 3) if i in group else a
              for i, a in enumerate(args)]  # fmt: skip
    sums = [np.asarray(a + b) if i in group else a for i, (a, b) in enumerate(zip(args, others))]
    return list(args), others, sums


# what a rule leaves out -------------------------------------------------------------------------


def missed(primitive: Primitive, samples: Sequence[Sample]) -> list[str]:
    """The axes that a rule calls whole though they could be cut in every sample, in words."""
    could: dict[tuple[int, int, int], list[bool]] = {}
    for sample in samples:
        told = factors(primitive, sample)
        for i, (names, a) in enumerate(zip(told.operands, sample.args)):
            for j, c in enumerate(names):
                if c == WHOLE and a.shape[j] > 1:
                    found = could.setdefault((i, a.ndim, j), [])
                    if all(found):
                        found.append(_can_be_cut(primitive, sample, i, j))
    return [
        f"axis {j} of operand {i} of {ndim} axes"
        for (i, ndim, j), found in sorted(could.items())
        if all(found) and len(found) >= _ENOUGH
    ]


def missed_groups(primitive: Primitive, samples: Sequence[Sample]) -> list[str]:
    """The operands that are linear in every sample, though no group holds them alone."""
    could: dict[int, list[bool]] = {}
    for sample in samples:
        told = factors(primitive, sample)
        for i, a in enumerate(sample.args):
            if a.dtype in INEXACT and a.size and (i,) not in told.linear:
                found = could.setdefault(i, [])
                found.append(all(found) and _is_linear(primitive, sample, i))
    return [f"operand {i}" for i, found in could.items() if all(found) and len(found) >= _ENOUGH]


def _is_linear(primitive: Primitive, sample: Sample, i: int) -> bool:
    first, rest, both = _addends(sample.args, (i,))
    runs = [_run(primitive, args, sample.params) for args in (first, rest, both)]
    try:
        expect_all_close([*map(np.add, *runs[:2])], runs[2], _TOLERANCE, "")
    except Mismatch:
        return False
    return any(a.dtype in INEXACT for a in runs[2])


def _can_be_cut(primitive: Primitive, sample: Sample, i: int, j: int) -> bool:
    """Whether some way to cut the axis, and perhaps others with it, gives parts of the results."""
    size = sample.args[i].shape[j]
    ways: list[Any] = [
        [j] if k == i else [None, *[d for d, n in enumerate(a.shape) if n == size]]
        for k, a in enumerate(sample.args)
    ]
    return any(_holds(primitive, sample, way) for way in product(*ways))


def _holds(primitive: Primitive, sample: Sample, way: Sequence[Any]) -> bool:
    names = tuple([
        "".join(["x" if d == axis else WHOLE for d in range(a.ndim)])
        for axis, a in zip(way, sample.args)
    ])  # fmt: skip
    try:
        want = _run(primitive, sample.args, sample.params)
        cut = Factors(names, ("x",) * len(want))  # of whatever result: no operand is addends
        for count in _COUNTS:
            found = list(parts(primitive, sample, cut, "x", count))
            if not all(_joins([outs[k] for outs in found], w) for k, w in enumerate(want)):
                return False
            if all(np.array_equal(outs[k], w) for outs in found for k, w in enumerate(want)):
                return False  # nothing depends on it
    except Exception:
        return False
    return True


def _joins(found: Arrays, want: np.ndarray) -> bool:
    """Whether parts give the whole in some way."""
    ways = [lambda d=d: np.concatenate(found, d) for d in range(want.ndim)]
    ways += [lambda op=op: reduce(op, found) for op in _JOINS.values()]
    if all(np.array_equal(a, found[0]) for a in found):
        ways.append(lambda: found[0])
    for way in ways:
        try:
            expect_close(way(), want, _TOLERANCE, "")
        except (Mismatch, ValueError, TypeError):
            continue
        return True
    return False
