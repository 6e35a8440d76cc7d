"""Rule: one optimizer's arithmetic on one parameter, and the clock of its steps.

A rule knows nothing of parameter groups or cells: the stateful ``Optimizer`` and the pure form both
run it. What depends on the step count alone is computed once a step, not once a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fx.config import default_dtype
from fx.dtypes import COMPLEX, float32, float64, real_of
from fx.errors import DTypeError, ShapeError
from fx.ops.pointwise.complex_numbers import view_as_complex, view_as_real
from fx.prims.compare import astype
from fx.prims.creation import constant, full
from fx.prims.shape import broadcast_to, reshape
from fx.tensor import Tensor

Options = Mapping[str, Any]
Slots = dict[str, Tensor]


def zeros(like: Tensor) -> Tensor:
    """Zeros of the shape, dtype and device of a tensor."""
    return filled(like, 0)


def filled(like: Tensor, value: Any, shape: tuple[int, ...] | None = None) -> Tensor:
    """One number everywhere, of the dtype and device of a tensor."""
    shape = like.shape if shape is None else shape
    if isinstance(value, Tensor):
        return broadcast_to(_in_dtype(value, like.dtype), shape=shape)
    return full(shape=shape, value=value, dtype=like.dtype, device=like.device.name)


def _zeros(name: str, like: Tensor, options: Options) -> Tensor:
    return filled(like, 0)


def _from_zero(name: str, options: Options) -> float:
    return 0.0


class Rule(NamedTuple):
    """The arithmetic of an optimizer.

    Args:
        check: refuses bad options.
        slots: ``(options, parameter) -> names``; the tensors that are kept for each parameter. Of
            the parameter only shape and dtype are looked at.
        update: ``(parameter, gradient, slots, scalars, options) -> (parameter, slots)``.
        counts: ``(options) -> names``; the numbers that are kept for each parameter and depend on
            no tensor; the first is ``"step"``. None where the count of steps does not matter.
        scalars: ``(counts, options) -> dict``; scalars of the step that begins, which are handed to
            ``update`` in the parameter's dtype, and under the names of counts the new values of
            these. ``counts["step"]`` is the number of the step (from 1), float64; the others are
            what they were before.
        begin: ``(name, parameter, options) -> tensor``; what a slot holds at first.
        begin_count: ``(name, options) -> number``; what a count is at first.
        elementwise: whether every element of ``update`` follows from the same element of its
            arguments, and the shape of a parameter does not matter.
        unsaved: counts that PyTorch's optimizer does not keep, so that state dicts leave them out.
        whole: counts that PyTorch's optimizer keeps as Python ints.
    """

    check: Callable[[Options], None]
    slots: Callable[[Options, Tensor], tuple[str, ...]]
    update: Callable[..., tuple[Tensor, Slots]]
    counts: Callable[[Options], tuple[str, ...]] = lambda options: ()
    scalars: Callable[[dict[str, Tensor], Options], dict[str, Any]] = lambda counts, options: {}
    begin: Callable[[str, Tensor, Options], Tensor] = _zeros
    begin_count: Callable[[str, Options], Any] = _from_zero
    elementwise: bool = True
    unsaved: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()


def updated(rule: Rule, x: Tensor, g: Tensor, slots: Slots, clock: Clock) -> tuple[Tensor, Slots]:
    """A parameter and its slots after the step of a clock. A rule sees complex numbers as pairs."""
    if x._dtype not in COMPLEX:
        return rule.update(x, g, slots, clock.scalars(x._dtype), clock.options(x._dtype))
    slots = {name: view_as_real(value) for name, value in slots.items()}
    dtype = real_of(x.dtype)
    x, slots = rule.update(
        view_as_real(x), view_as_real(g), slots, clock.scalars(dtype), clock.options(dtype)
    )
    return view_as_complex(x), {name: view_as_complex(value) for name, value in slots.items()}


def begun(rule: Rule, name: str, x: Any, options: Options) -> Tensor:
    """What a slot of a parameter holds at first."""
    if x.dtype not in COMPLEX:
        return rule.begin(name, x, options)
    return view_as_complex(rule.begin(name, view_as_real(x), options))


def check_dtype(name: str, rule: Rule, x: Any) -> None:
    """Refuse what an optimizer cannot update.

    Raises:
        DTypeError: for a complex parameter, if the optimizer looks at rows and matrices.
    """
    if x.dtype in COMPLEX and not rule.elementwise:
        raise DTypeError(
            f"{name} does not support complex parameters, got {x.spec!r}; write Adam for these"
        )


def step_alone(options: Options) -> tuple[str, ...]:
    """``Rule.counts`` of a rule that keeps the number of steps."""
    return ("step",)


def penalized(x: Tensor, g: Tensor, options: Options) -> Tensor:
    """The gradient to go down along, with weight decay."""
    if options["maximize"]:
        g = -g
    return g + x * options["weight_decay"] if given(options["weight_decay"]) else g


def decayed(x: Tensor, g: Tensor, options: Options) -> tuple[Tensor, Tensor]:
    """Parameter and gradient after weight decay, which goes into the one or the other."""
    if not options["decoupled_weight_decay"]:
        return x, penalized(x, g, options)
    if given(options["weight_decay"]):
        x = x * (1.0 - options["lr"] * options["weight_decay"])
    return x, -g if options["maximize"] else g


class Clock:
    """The step that begins: its counts and the scalars that follow from them, a dtype at a time.

    Attributes:
        after: the counts after the step.
    """

    __slots__ = ("_exact", "_options", "_scalars", "_settled", "after")

    def __init__(self, rule: Rule, options: Options, before: dict[str, Tensor]) -> None:
        self._options = options
        self._settled: dict[Any, Options] | None = None
        self.after = before
        self._exact: dict[str, Any] | None = None
        if before:
            step = before["step"] + 1
            self.after = {**before, "step": step}
            counts = {**before, "step": astype(step, dtype=float64)}
            self._scalars: dict[Any, dict[str, Tensor]] = {}
            self._exact = rule.scalars(counts, self.options(float64))
            for name, old in before.items():
                if name in self._exact:
                    self.after[name] = astype(self._exact.pop(name), dtype=old.dtype)

    def scalars(self, dtype: Any) -> dict[str, Tensor]:
        """The scalars in ``dtype``."""
        if not self._exact:
            return {}
        found = self._scalars.get(dtype)
        if found is None:
            found = {k: astype(v, dtype=dtype) for k, v in self._exact.items()}
            self._scalars[dtype] = found
        return found

    def options(self, dtype: Any) -> Options:
        """The options, those that are tensors in ``dtype``."""
        if self._settled is None:
            if not _of_tensors(self._options):
                return self._options
            self._settled = {}
        found = self._settled.get(dtype)
        if found is None:
            found = self._settled[dtype] = _settled(self._options, dtype)
        return found


_PLAIN = frozenset({float, int, bool, str, list, type(None)})


def _of_tensors(options: Options) -> list[str]:
    """The options that are tensors, a learning rate perhaps, or tuples of such."""
    items = dict.items(options)  # type: ignore[call-overload]
    return [k for k, v in items if type(v) not in _PLAIN and _has_tensors(v)]


def _has_tensors(value: Any) -> bool:
    if type(value) is not tuple:
        return isinstance(value, Tensor)
    return any(isinstance(x, Tensor) for x in value)


def _settled(options: Options, dtype: Any) -> Options:
    """Options whose tensors are scalars of ``dtype``."""
    return Settled(options, {k: _in_dtype(options[k], dtype) for k in _of_tensors(options)})


class Settled(dict[str, Any]):
    """Options of which some stand in another dtype."""

    __slots__ = ("_options",)

    def __init__(self, options: Options, changed: dict[str, Any]) -> None:
        super().__init__(changed)
        self._options = options

    def __missing__(self, key: str) -> Any:
        return self._options[key]


def _in_dtype(value: Any, dtype: Any) -> Any:
    if type(value) is tuple:
        return tuple([_in_dtype(x, dtype) for x in value])
    if not isinstance(value, Tensor):
        return value
    return astype(reshape(value, shape=()) if value.shape else value, dtype=dtype)


def first_count(rule: Rule, name: str, options: Options, device: Any) -> Tensor:
    """A count before the first step."""
    dtype = float64 if default_dtype() is float64 else float32
    value = rule.begin_count(name, options)
    if isinstance(value, Tensor):
        return _in_dtype(value, dtype)
    return constant(float(value), dtype, str(device))


# options ----------------------------------------------------------------------------------------


def options_of(arguments: dict[str, Any], order: str = "") -> dict[str, Any]:
    """Of ``locals()`` where the ``__init__`` of an optimizer begins: what a group has.

    ``order`` holds PyTorch's order of the names in a group, where the arguments have another.
    """
    names = order.split() or [k for k in arguments if k not in ("self", "params", "__class__")]
    return {k: arguments[k] for k in names}


_SPOKEN = {"lr": "learning rate", "eps": "epsilon value", "momentum_decay": "momentum_decay value"}


def check_positive(name: str, options: Options, *keys: str) -> None:
    """Refuse negative numbers among ``options``, and learning rates that are no single number.

    Raises:
        ValueError: naming the option.
    """
    for key in keys:
        value = options[key]
        if isinstance(value, Tensor):
            check_single(name, key, value)
        elif not value >= 0.0:
            spoken = _SPOKEN.get(key, f"{key} value")
            raise ValueError(f"Invalid {spoken}: {value}; {name} takes a {key} of at least 0")


def check_pair(name: str, key: str, value: Any) -> Any:
    """An option that is a pair of numbers.

    Raises:
        TypeError: naming the option, if it is anything else.
    """
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise TypeError(
            f"{name}: {key} must be a pair of numbers, got {value!r:.60}; write {key}=(a, b)"
        )
    return value


def check_betas(name: str, options: Options) -> None:
    """Refuse what is no pair of shares of moments in [0, 1).

    Raises:
        TypeError: for no pair.
        ValueError: naming the one.
    """
    for i, beta in enumerate(check_pair(name, "betas", options["betas"])):
        if isinstance(beta, Tensor):
            check_single(name, f"betas[{i}]", beta)
        elif not 0.0 <= beta < 1.0:
            raise ValueError(
                f"Invalid beta parameter at index {i}: {beta}; {name} takes betas in [0, 1)"
            )


def check_single(name: str, key: str, value: Tensor) -> None:
    """Refuse an option that is a tensor of several elements.

    Raises:
        ShapeError: naming the option.
    """
    if value.size != 1:
        raise ShapeError(f"Tensor {key} must be 1-element; {name} got {value.spec!r}")


def given(value: Any) -> bool:
    """Whether an option is in use: not zero. One that is a tensor always is."""
    return isinstance(value, Tensor) or bool(value != 0)
