"""Words: every composition of grad, jvp, vmap, backward and jit, on a primitive.

A word is read like a product of functions: ``"gjv"`` is ``grad(jvp(vmap(f)))``. A word is checked
against its own tail: the outermost transform of a function must be what differences (grad, jvp,
backward), a loop (vmap) or nothing (jit) make of that function's values. The tail is a word too, so
every word rests, letter by letter, on plain calls of the primitive.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TextIO

import numpy as np

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx.dtypes import COMPLEX, INEXACT, float64
from fx.primitive import Primitive
from fx.prims.complex import part
from fx.prims.sampling import Sample
from fx.slotted import slotted
from fx.tensor import Tensor
from fx.testing.case import (
    Arrays,
    LawBroken,
    Mismatch,
    as_tuple,
    differentiable_args,
    directions,
    draw,
    numeric,
    placed,
    smooth,
    tensor,
)
from fx.testing.closeness import DIFFERENCES, STEP, combine, expect_all_close, inner
from fx.transforms import grad, jit, jvp, vmap

LETTERS = {"g": "grad", "j": "jvp", "v": "vmap", "b": "backward", "c": "jit"}
Function = Callable[[Tensor], tuple[Tensor, ...]]


def words(length: int = 3) -> list[str]:
    """Every word of 1 to ``length`` letters.

    Example:
        >>> from fx.testing import words
        >>> len(words(3)), words(1)
        (155, ['g', 'j', 'v', 'b', 'c'])
    """
    return ["".join(w) for n in range(1, length + 1) for w in product(LETTERS, repeat=n)]


def spelled(word: str) -> str:
    """The word in full: ``"gv"`` is ``grad(vmap(f))``."""
    out = "f"
    for letter in reversed(word):
        out = f"{LETTERS[letter]}({out})"
    return out


# the function that words are applied to ---------------------------------------------------------


@slotted(frozen=True)
class Subject:
    """What words are applied to: a function of one floating tensor, a point, and another lane."""

    function: Function
    point: np.ndarray
    other: Callable[[Any], Any] = lambda x: x * 0.96875


def subject_of(primitive: Primitive, sample: Sample) -> Subject:
    """A primitive as a function of its first argument that has a derivative.

    A primitive without one is reached through a switch that chooses between two sets of arguments,
    and its results are scaled by it: so there is something to differentiate, and the primitive
    itself meets every transform.
    """
    wrt = differentiable_args(primitive, sample)[:1]
    if wrt:
        return Subject(smooth(primitive, sample, wrt), sample.args[wrt[0]])
    return Subject(_switched(primitive, sample), np.asarray(0.375), lambda x: x + 1.0)


def _switched(primitive: Primitive, sample: Sample) -> Function:
    args = [(tensor(a), tensor(np.flip(a))) for a in sample.args]

    def function(x: Tensor) -> tuple[Tensor, ...]:
        first = compare.less(x, tensor(np.asarray(1.0)))
        chosen = [compare.where(first, a, b) for a, b in args]
        outs = as_tuple(primitive(*chosen, **placed(sample.params)))
        return tuple([
            (o if o.dtype in INEXACT else compare.astype(o, dtype=float64)) * x for o in outs
        ])  # fmt: skip

    return function


def small_subject(primitive: Primitive, seeds: Iterable[int] = range(24)) -> Subject:
    """A primitive at the sample, among a few, that has elements and nearest to three of them."""
    found = [subject_of(primitive, draw(primitive, random.Random(seed))) for seed in seeds]

    def rank(s: Subject) -> tuple[bool, int]:
        outs = numeric(s.function)(s.point)
        return min([o.size for o in outs], default=0) == 0, abs(s.point.size - 3)

    with np.errstate(all="ignore"):
        return min(found, key=rank)


# letters ----------------------------------------------------------------------------------------


def _weighted(outs: Sequence[Tensor]) -> Tensor:
    """A generic linear function of the results, a real scalar."""
    kinds = [np.complex128 if o.dtype in COMPLEX else np.float64 for o in outs]
    weights = directions([np.empty(o.shape, kind) for o, kind in zip(outs, kinds, strict=True)], 7)
    total = tensor(np.asarray(0.0))
    for o, w in zip(outs, weights, strict=True):
        product = o * tensor(w)
        real = part(product, turn=0) if o.dtype in COMPLEX else product
        total = total + shape_prims.sum_to(real, shape=())
    return total


def _direction(x: Any) -> np.ndarray:
    return directions([np.empty(x.shape)], 8)[0]


def _grad(function: Function, subject: Subject) -> Function:
    return lambda x: (grad(lambda x: _weighted(function(x)))(x),)


def _jvp(function: Function, subject: Subject) -> Function:
    return lambda x: jvp(function, (x,), (tensor(_direction(x)),))[1]


def _vmap(function: Function, subject: Subject) -> Function:
    def mapped(x: Tensor) -> tuple[Tensor, ...]:
        both = [shape_prims.reshape(y, shape=(1, *x.shape)) for y in (x, subject.other(x))]
        return vmap(function)(shape_prims.concatenate(*both, axis=0))  # type: ignore[no-any-return]

    return mapped


def _backward(function: Function, subject: Subject) -> Function:
    """What a script does, inside a transform too: a leaf, a scalar, the gradient of the leaf."""

    def pulled(x: Tensor) -> tuple[Tensor, ...]:
        leaf = x.requires_grad_()
        y = _weighted((*function(leaf), leaf * 0.0))  # so that it depends on the leaf
        leaf.grad = None  # what the words inside left there
        y.backward(create_graph=True, inputs=[leaf])
        gradient, leaf.grad = leaf.grad, None
        return (gradient,)

    return pulled


def _jit(function: Function, subject: Subject) -> Function:
    return jit(function)  # type: ignore[no-any-return]


_MAKE = {"g": _grad, "j": _jvp, "v": _vmap, "b": _backward, "c": _jit}


def applied(word: str, subject: Subject) -> Function:
    """The function that the word makes of the subject's."""
    function = subject.function
    for letter in reversed(word):
        function = _MAKE[letter](function, subject)
    return function


# the check --------------------------------------------------------------------------------------


class _Values:
    """The values of each word at the points that the checks ask for, computed once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[Any, Arrays] = {}

    def at(self, word: str, place: str | int = 0) -> Arrays:
        """At the point, at a multiple of the step from it, or in the other lane."""
        if (word, place) not in self._known:
            x = self.subject.point
            if place == "other":
                x = self.subject.other(x)
            elif place:
                x = x + place * STEP * _direction(x)  # type: ignore[operator]
            self._known[word, place] = numeric(applied(word, self.subject))(x)
        return self._known[word, place]


def broken_words(
    primitive: Primitive,
    length: int = 3,
    subject: Subject | None = None,
    only: Sequence[str] | None = None,
) -> dict[str, LawBroken]:
    """The words up to ``length`` that do not hold on ``primitive``, each with what is wrong.

    Args:
        primitive: whose rules are composed.
        length: of the longest word.
        subject: the function and the point; by default at a small sample.
        only: these words instead.

    Example:
        >>> import fx.testing
        >>> fx.testing.broken_words(fx.testing.primitive("tanh"), length=2)
        {}
    """
    values = _Values(subject or small_subject(primitive))
    broken = {}
    for word in words(length) if only is None else only:
        try:
            with np.errstate(all="ignore"):
                _check(word, values)
        except Exception as error:
            what = str(error) if isinstance(error, Mismatch) else f"{type(error).__name__}: {error}"
            rule = {"j": "jvp", "v": "batch", "c": "cpu"}.get(word[0], "vjp")
            broken[word] = LawBroken(primitive.name, rule, f"the word {spelled(word)}", f"{what}")
            broken[word].__cause__ = error
    return broken


def _check(word: str, values: _Values) -> None:
    letter, tail = word[0], word[1:]
    got = values.at(word)
    if letter == "v":
        lanes = zip(values.at(tail), values.at(tail, "other"), strict=True)
        expect_all_close(got, [np.stack(pair) for pair in lanes], 1e-9, "against the loop")
        return
    if letter == "c":
        expect_all_close(got, values.at(tail), 1e-9, "against the function itself")
        return
    slope = combine(*[values.at(tail, steps) for steps in (1, -1, 2, -2)])
    size = max([float(np.abs(a).max(initial=0.0)) for a in values.at(tail)], default=0.0)
    noise = 1e-10 * size / DIFFERENCES  # what rounding of the tail's values leaves in a difference
    if letter == "j":
        for g, w in zip(got, slope, strict=True):
            expect_all_close([g], [w], DIFFERENCES * (1 + noise), "against differences")
        return
    weights = directions(slope, 7)
    want, scale = inner(weights, slope)
    found, more = inner(got, [_direction(values.subject.point)])
    if not abs(want - found) <= DIFFERENCES * (scale + more + noise + 1e-3):
        raise Mismatch(f"along a direction {found:.12g}, by differences {want:.12g}")
    if letter == "b":
        expect_all_close(got, values.at("g" + tail), 1e-9, "against grad")


# the grid ---------------------------------------------------------------------------------------


def grid(
    primitives: Iterable[Primitive] | None = None, length: int = 3, file: TextIO | None = None
) -> dict[str, dict[str, LawBroken]]:
    """Print a row per primitive and a column per word: ``.`` where it holds, ``x`` where not.

    Args:
        primitives: the rows; every registered one by default.
        length: of the longest word.
        file: where to print, standard output by default.

    Returns:
        for each primitive with a hole, the broken words.

    Example:
        >>> import fx.testing
        >>> fx.testing.grid([fx.testing.primitive("exp")], length=1)
        grad, jvp, vmap, backward, jit; read downwards, the outermost transform first
              gjvbc
        exp   .....
        {}
    """
    from fx.testing.laws import all_primitives

    file = file or sys.stdout
    rows = list(all_primitives().values() if primitives is None else primitives)
    wide = max([len(p.name) for p in rows], default=0) + 2
    wide = max(wide, 6)
    groups = [[w for w in words(length) if len(w) == n] for n in range(1, length + 1)]
    print(
        f"{', '.join(LETTERS.values())}; read downwards, the outermost transform first", file=file
    )
    for line in range(length):
        cells = [
            "".join([w[line] if line < len(w) else " " for w in group]) for group in groups
        ]  # fmt: skip
        print((" " * wide + " ".join(cells)).rstrip(), file=file)
    holes = {}
    for p in rows:
        broken = broken_words(p, length)
        cells = ["".join(["x" if w in broken else "." for w in group]) for group in groups]
        print(p.name.ljust(wide) + " ".join(cells), file=file, flush=True)
        if broken:
            holes[p.name] = broken
    return holes
