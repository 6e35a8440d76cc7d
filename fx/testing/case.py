"""What the laws work with: samples and their lanes, calls on arrays, comparison, differences."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from fx.devices import as_device, backend
from fx.dtypes import COMPLEX, FLOATING, INEXACT, float64
from fx.errors import DTypeError, FxError
from fx.ops.convert import from_array
from fx.primitive import Primitive
from fx.prims.sampling import Draw, Sample
from fx.slotted import slotted
from fx.spec import TensorSpec
from fx.tensor import Tensor

Arrays = list[np.ndarray]


class Mismatch(AssertionError):
    """Two things that a law says are equal differ; the law adds the primitive and the rule."""


class LawBroken(AssertionError):
    """A primitive's rule breaks a law.

    Args:
        primitive: the primitive's name.
        rule: the rule to look at: ``"spec"``, ``"cpu"``, ``"jvp"``, ``"vjp"``, ``"batch"`` or
            ``"sample"``.
        law: the law, in words.
        details: what came out and what should have.
    """

    def __init__(self, primitive: str, rule: str, law: str, details: str) -> None:
        super().__init__(f"{primitive}: {rule} breaks {law}\n{details}")
        self.primitive, self.rule, self.law, self.details = primitive, rule, law, details


# samples ----------------------------------------------------------------------------------------


@slotted()
class Drawn(Sample):
    """A sample with further ones of the same shapes and parameters: the lanes of a batch."""

    others: list[Sample] = field(default_factory=list)


class _Choices:
    """A source that remembers the choices that a sampler made, so that they can be made again."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.made: list[int] = []

    def getrandbits(self, bits: int) -> int:
        return self.source.getrandbits(bits)

    def randint(self, low: int, high: int) -> int:
        self.made.append(self.source.randint(low, high))
        return self.made[-1]


class _SameChoices:
    """A source that makes remembered choices, with other values."""

    def __init__(self, made: list[int], seed: int) -> None:
        self.made = iter(made)
        self.seed = seed

    def getrandbits(self, bits: int) -> int:
        return self.seed

    def randint(self, low: int, high: int) -> int:
        return next(self.made, low)


def draw(
    primitive: Primitive, source: random.Random, dtype: Any = float64, stretch: int = 1
) -> Drawn:
    """Draw arguments for ``primitive``, and as many for two more lanes.

    Args:
        primitive: whose sampler is asked.
        source: where choices come from.
        dtype: the floating dtype of the values.
        stretch: how many times as long axes may be as the sampler says.

    Raises:
        LawBroken: if the sampler fails.

    Example:
        >>> import random, fx, fx.testing
        >>> sample = fx.testing.draw(fx.testing.primitive("tanh"), random.Random(0))
        >>> len(sample.args), sample.args[0].dtype
        (1, dtype('float64'))
    """
    choices = _Choices(source)
    try:
        with np.errstate(all="ignore"):
            drawn = _sample(primitive, choices, dtype, stretch)
            for seed in (1, 2):
                other = _sample(primitive, _SameChoices(choices.made, seed), dtype, stretch)
                same = [(a.shape, a.dtype) for a in other.args] == [
                    (a.shape, a.dtype) for a in drawn.args
                ]
                if same and other.params == drawn.params:
                    drawn.others.append(other)
    except Exception as error:
        law = "the sampler draws valid arguments"
        raise LawBroken(primitive.name, "sample", law, told(error)) from error
    return drawn


def _sample(primitive: Primitive, source: Any, dtype: Any, stretch: int) -> Drawn:
    sample = primitive.sample(Draw(source, dtype, stretch))
    return Drawn([np.asarray(a) for a in sample.args], sample.params, sample.fixed, sample.seen)


def cast(sample: Sample, dtype: Any) -> Sample:
    """The sample with its floating arguments, and floating dtypes among its parameters, cast."""
    args = [a.astype(dtype) if a.dtype in FLOATING else a for a in sample.args]
    params = {
        k: dtype if isinstance(v, np.dtype) and v in FLOATING else v
        for k, v in sample.params.items()
    }
    return Sample(args, params, sample.fixed, sample.seen)


def taken_in(
    primitive: Primitive, sample: Sample, dtypes: Iterable[Any]
) -> Iterator[tuple[Any, Sample]]:
    """The sample in each of some floating dtypes; 16 bits are left out if the spec rule says no."""
    for dtype in dtypes:
        given = cast(sample, dtype)
        if np.dtype(dtype).itemsize == 2 and refused(primitive, given):
            continue
        yield dtype, given


def refused(primitive: Primitive, sample: Sample) -> bool:
    """Whether the spec rule refuses the dtypes of arguments."""
    try:
        primitive.spec(*[TensorSpec(a.shape, a.dtype) for a in sample.args], **sample.params)
    except DTypeError:
        return True
    return False


def widened(array: np.ndarray) -> np.ndarray:
    """A floating or complex array in the widest dtype of its kind."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def lanes(sample: Sample, count: int) -> list[Arrays]:
    """``count`` variants of the arguments of ``sample``: its own, others drawn, others made."""
    found = [sample.args, *[s.args for s in getattr(sample, "others", ())]]
    while len(found) < count:
        k = len(found)
        found.append([_variant(a, k, i in sample.fixed) for i, a in enumerate(sample.args)])
    return found[:count]


def _variant(array: np.ndarray, k: int, fixed: bool) -> np.ndarray:
    """Values as valid as those of ``array``: rolled, and floating ones a little smaller."""
    rolled = np.roll(array, k)
    return (
        rolled
        if fixed or array.dtype not in INEXACT
        else (rolled * (1 - k / 32)).astype(array.dtype)
    )


def in_complex(primitive: Primitive, sample: Sample) -> Sample | None:
    """The sample with imaginary parts added; None if the spec rule refuses complex arguments."""
    wide = cast(sample, np.dtype("complex128"))
    if not any(a.dtype in COMPLEX for a in wide.args):
        return None
    generator = np.random.default_rng(9)
    for i, a in enumerate(wide.args):
        if a.dtype in COMPLEX and i not in sample.fixed:
            wide.args[i] = a + 1j * generator.uniform(0.05, 0.3, a.shape)
    try:
        primitive.spec(*[TensorSpec(a.shape, a.dtype) for a in wide.args], **wide.params)
    except FxError:
        return None
    return wide


def differentiable_args(primitive: Primitive, sample: Sample) -> tuple[int, ...]:
    """The numbers of the arguments that have a derivative."""
    if not primitive.differentiable:
        return ()
    return tuple(
        i for i, a in enumerate(sample.args) if a.dtype in INEXACT and i not in sample.fixed
    )


def subsets(items: Sequence[int], limit: int = 3) -> list[tuple[int, ...]]:
    """The non-empty subsets; of more than ``limit`` items only singles, all but one, and all."""
    sizes: Iterable[int] = range(1, len(items) + 1)
    if len(items) > limit:
        sizes = (1, len(items) - 1, len(items))
    return [s for n in sizes for s in combinations(items, n)]


# calls ------------------------------------------------------------------------------------------


_where = ["cpu"]


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """A block in which what laws compute with lies on a device.

    Example:
        >>> from fx.testing import check_law, primitive, LAWS
        >>> from fx.testing.case import on_device
        >>> with on_device("cpu"):
        ...     check_law(LAWS["dot_product"], primitive("tanh"))
    """
    _where.append(as_device(name).name)
    try:
        yield
    finally:
        _where.pop()


def tensor(array: np.ndarray) -> Tensor:
    """A tensor of an array; on the CPU without a copy."""
    return from_array(np.asarray(array), _where[-1])


def placed(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with the device where laws compute in place of the one that a sampler names."""
    return {**params, "device": _where[-1]} if "device" in params else params


def array_of(x: Tensor) -> np.ndarray:
    """The values of a plain tensor."""
    if type(x) is not Tensor:
        raise Mismatch(f"expected a plain tensor, got a {type(x).__name__} of {x.spec!r}")
    return backend(x.device.name).to_numpy(x._a)  # type: ignore[no-any-return]


def as_tuple(result: Any) -> tuple[Any, ...]:
    """The outputs of a primitive, one or several."""
    return result if isinstance(result, tuple) else (result,)


def call(primitive: Primitive, args: Sequence[np.ndarray], params: dict[str, Any]) -> Arrays:
    """Bind on arrays; every output as an array."""
    out = primitive(*[tensor(a) for a in args], **placed(params))
    if primitive.multiple != isinstance(out, tuple):
        raise Mismatch(f"multiple={primitive.multiple}, but a call gives {type(out).__name__}")
    return [array_of(x) for x in as_tuple(out)]


def seen(function: Callable[..., Any], sample: Sample) -> Callable[..., Any]:
    """A primitive with the parameters of a sample, as laws judge it."""
    bound = partial(function, **placed(sample.params))
    return bound if sample.seen is None else sample.seen(bound)  # type: ignore[no-any-return]


def judged(function: Callable[..., Any], sample: Sample) -> Arrays:
    """What laws compare of the results on the arguments of a sample."""
    return [array_of(x) for x in as_tuple(seen(function, sample)(*map(tensor, sample.args)))]


def smooth(
    primitive: Primitive,
    sample: Sample,
    wrt: Sequence[int],
    args: Sequence[Tensor] | None = None,
) -> Callable[..., tuple[Tensor, ...]]:
    """The floating outputs as a function of the arguments ``wrt``, tensors of any level.

    The other arguments are the sample's, or those of ``args``. A sample with ``seen`` is seen so.
    """
    observed = seen(primitive, sample)
    rest = [tensor(a) for a in sample.args] if args is None else args

    def function(*xs: Tensor) -> tuple[Tensor, ...]:
        full = list(rest)
        for i, x in zip(wrt, xs, strict=True):
            full[i] = x
        return tuple([x for x in as_tuple(observed(*full)) if x.dtype in INEXACT])

    return function


def numeric(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """A function of tensors as one of arrays."""

    def run(*arrays: np.ndarray) -> Arrays:
        return [array_of(x) for x in as_tuple(function(*[tensor(a) for a in arrays]))]

    return run


def directions(arrays: Iterable[np.ndarray], seed: int = 0) -> Arrays:
    """Fixed generic values of the shapes and dtypes of ``arrays``, all of a size near 1."""
    generator = np.random.default_rng(seed)

    def generic(shape: tuple[int, ...]) -> np.ndarray:
        return np.asarray(generator.uniform(0.4, 1.0, shape) * generator.choice([-1.0, 1.0], shape))

    return [
        np.asarray(generic(a.shape) + (1j * generic(a.shape) if a.dtype in COMPLEX else 0)).astype(
            a.dtype
        )
        for a in arrays
    ]


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
