"""In-place use: tensors are immutable, and each attempt is told the line to write instead."""

from __future__ import annotations

from typing import Any

from fx.errors import InPlaceError
from fx.ops.indexing.language import shown
from fx.tensor import Tensor

# the line to write where it is not `x = x.name(...)`
_INSTEAD = {
    "add_": "x = x + y",
    "sub_": "x = x - y",
    "subtract_": "x = x - y",
    "mul_": "x = x * y",
    "multiply_": "x = x * y",
    "div_": "x = x / y",
    "divide_": "x = x / y",
    "true_divide_": "x = x / y",
    "floor_divide_": "x = x // y",
    "remainder_": "x = x % y",
    "pow_": "x = x ** y",
    "neg_": "x = -x",
    "negative_": "x = -x",
    "addcmul_": "x = x + value * a * b",
    "addcdiv_": "x = x + value * a / b",
    "addmm_": "x = beta * x + alpha * (a @ b)",
    "addmv_": "x = beta * x + alpha * (a @ b)",
    "baddbmm_": "x = beta * x + alpha * (a @ b)",
    "addbmm_": "x = beta * x + alpha * (a @ b).sum(0)",
    "addr_": "x = beta * x + alpha * a[:, None] * b",
    "zero_": "x = fx.zeros_like(x)",
    "fill_": "x = fx.full_like(x, value)",
    "copy_": "x = y.to(x)",
    "set_": "x = y",
    "fill_diagonal_": "x = x.at[i, i].set(value) with i = fx.arange(n)",
    "index_add_": "x = x.at[index].add(y)",
    "index_copy_": "x = x.at[index].set(y)",
    "index_fill_": "x = x.at[index].set(value)",
    "index_put_": "x = x.at[indices].set(values)",
    "index_reduce_": "x = x.at[index].max(y), or .min, .multiply",
    "put_": "x = x.reshape(-1).at[index].set(y).reshape(x.shape)",
    "masked_fill_": "x = fx.where(mask, value, x)",
    "masked_scatter_": "x = x.at[mask].set(y)",
    "map_": "x = function(x, y)",
    "map2_": "x = function(x, y, z)",
    "apply_": "x = function(x)",
    "lerp_": "x = x + weight * (y - x)",
    "normal_": "x = fx.random.normal(key, x.shape)",
    "uniform_": "x = fx.random.uniform(key, x.shape)",
    "random_": "x = fx.random.randint(key, x.shape, low, high)",
    "bernoulli_": "x = fx.random.bernoulli(key, p, x.shape)",
    "exponential_": "x = fx.random.exponential(key, x.shape)",
    "geometric_": "x = fx.random.geometric(key, p, x.shape)",
    "cauchy_": "x = median + sigma * fx.random.cauchy(key, x.shape)",
    "log_normal_": "x = fx.exp(mean + std * fx.random.normal(key, x.shape))",
    "resize_": "x = x.reshape(shape)",
    "resize_as_": "x = x.reshape(y.shape)",
    "detach_": "x = x.detach()",
    "share_memory_": "nothing: views share memory already",
}

# PyTorch's other methods that write in place: the line is `x = x.name(...)`
_OTHERS = """
abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh as_strided asin asinh
atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
bitwise_xor ceil clamp clamp_max clamp_min clip conj_physical copysign cos cosh cumprod cumsum
deg2rad digamma eq erf erfc erfinv exp exp2 expm1 fix float_power floor fmod frac gcd ge greater
greater_equal gt heaviside hypot i0 igamma igammac lcm ldexp le less less_equal lgamma log log10
log1p log2 logical_and logical_not logical_or logical_xor logit lt mvlgamma nan_to_num ne nextafter
not_equal polygamma rad2deg reciprocal relu renorm resize_as_sparse round rsqrt scatter scatter_add
scatter_reduce sgn sigmoid sign sin sinc sinh sparse_resize sparse_resize_and_clear sqrt square
squeeze swapaxes swapdims t tan tanh transpose tril triu trunc unsqueeze xlogy
"""

NAMES = (*_INSTEAD, *(f"{name}_" for name in _OTHERS.split()))


class _Refused:
    """A method that is none; ``dir`` leaves it out."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__doc__ = f"Refused: tensors do not change; write ``{line_for(name)}``."

    def __get__(self, x: Any, cls: Any) -> Any:
        return self if x is None else self.refuse

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Raise."""
        raise InPlaceError(
            f"x.{self.__name__}() would change x, and tensors never change; "
            f"write {line_for(self.__name__)}"
        )


def line_for(name: str) -> str:
    """The line to write instead of an in-place method."""
    return _INSTEAD.get(name) or f"x = x.{name[:-1]}(...)"


def __setitem__(self: Tensor, index: Any, value: Any) -> None:
    raise InPlaceError(
        f"x[{shown(index)}] = v would change x, and tensors never change; "
        f"write x = x.at[{shown(index)}].set(v)"
    )


def __delitem__(self: Tensor, index: Any) -> None:
    raise InPlaceError(
        f"del x[{shown(index)}] would change x, and tensors never change; "
        f"write x = x[mask] with a mask of what stays"
    )


def _dir(self: Tensor) -> list[str]:
    cls = type(self)
    return [n for n in object.__dir__(self) if not isinstance(getattr(cls, n, None), _Refused)]


def attach() -> None:
    """Put the refusals on Tensor, where no method of that name exists."""
    for name in NAMES:
        if not hasattr(Tensor, name):
            setattr(Tensor, name, _Refused(name))
    for name, method in {
        "__setitem__": __setitem__,
        "__delitem__": __delitem__,
        "__dir__": _dir,
    }.items():
        setattr(Tensor, name, method)
