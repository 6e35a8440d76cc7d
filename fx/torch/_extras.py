"""Functions of ``torch`` whose arguments fit no row of the table."""

from __future__ import annotations

from typing import Any

import fx
from fx import dtypes
from fx.config import default_dtype, set_default_dtype
from fx.ops.pointwise import complex_numbers, torch_names
from fx.ops.products import chains
from fx.ops.reductions import counting
from fx.ops.reductions.slopes import slopes
from fx.ops.shapes import assembly
from fx.seen import TORCH, Size
from fx.tensor import Tensor
from fx.torch._functions import FUNCTIONS, into, with_numpys_words
from fx.writing import dtype_views

# taken as they are ------------------------------------------------------------------------------

atleast_1d, atleast_2d, atleast_3d = assembly.atleast_1d, assembly.atleast_2d, assembly.atleast_3d
block_diag, cartesian_prod = assembly.block_diag, assembly.cartesian_prod
column_stack, dstack, combinations = assembly.column_stack, assembly.dstack, assembly.combinations
unravel_index, vander = assembly.unravel_index, assembly.vander
trapezoid, trapz = counting.trapezoid, counting.trapz
cumulative_trapezoid = counting.cumulative_trapezoid
polar, rsub, chain_matmul = complex_numbers.polar, torch_names.rsub, chains.chain_matmul
view_as_real, view_as_complex = dtype_views.view_as_real, dtype_views.view_as_complex
einsum = fx.einsum


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result of one dtype may be written into a tensor of another: no kind is lost.

    The kinds are bool, integers, floats and complex numbers; their sizes do not count.

    Example:
        >>> import fx.torch as torch
        >>> torch.can_cast(torch.double, torch.float), torch.can_cast(torch.float, torch.int)
        (True, False)
    """
    kinds = (dtypes.INTEGRAL, dtypes.FLOATING, dtypes.COMPLEX)
    ranks = [
        next((i + 1 for i, kind in enumerate(kinds) if dtype in kind), 0)
        for dtype in (dtypes.as_dtype(from_), dtypes.as_dtype(to))
    ]
    return ranks[0] <= ranks[1]


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """``input`` where the condition holds, ``other`` elsewhere; with one argument, the places."""
    if out is not None:
        return into(out, "where", "condition, input, other", where, condition, input, other)
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return fx.where(condition, input, other)


def pow(input: Any, exponent: Any, *, out: Any = None) -> Tensor:
    """``input`` to the power of ``exponent``; one of them may be a number."""
    if out is not None:
        return into(out, "pow", "input, exponent", pow, input, exponent)
    return input**exponent  # type: ignore[no-any-return]


@with_numpys_words
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element, or slice along ``dim``, several times; with one argument, its places."""
    if repeats is None:
        return fx.repeat_interleave(fx.arange(input.shape[0]), input)
    return FUNCTIONS["repeat_interleave"](input, repeats, dim)  # type: ignore[no-any-return]


def _without_nan(name: str, function: Any) -> Any:
    def reduce(
        input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
    ) -> Tensor:
        if out is not None:
            return into(out, name, "input, dim", reduce, input, dim, keepdim, dtype=dtype)
        return function(input if dtype is None else input.to(dtype), dim, keepdim)  # type: ignore[no-any-return]

    reduce.__name__ = reduce.__qualname__ = name
    reduce.__doc__ = f"The {name[3:]} of what is not NaN."
    return with_numpys_words(reduce)


nansum, nanmean = _without_nan("nansum", fx.nansum), _without_nan("nanmean", fx.nanmean)


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Tensor:
    """The sum of products over ``dims`` axes, or over the named ones of both."""
    if out is not None:
        return into(out, "tensordot", "a, b, dims", fx.tensordot, a, b, dims)
    return fx.tensordot(a, b, dims)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid; the first vector runs along the first axis unless told."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        tensors = tuple(tensors[0])
    return fx.meshgrid(*tensors, indexing=indexing)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors in the shape that they broadcast to."""
    return tuple(fx.broadcast_tensors(*tensors))


def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """Where each value would stand in a sorted sequence."""
    options: dict[str, Any] = {"right": right, "out_int32": out_int32, "sorter": sorter}
    given = (fx.searchsorted, sorted_sequence, input, side or "left")
    if out is not None:
        return into(out, "searchsorted", "sorted_sequence, input", *given, **options)
    return given[0](*given[1:], **options)


def _with_mean(function: Any, name: str) -> Any:
    def both(
        input: Any, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *,
        correction: float | None = None,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        return function(input, dim, correction, keepdim)  # type: ignore[no-any-return]

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"The {'variance' if name == 'var_mean' else 'deviation'} and the mean."
    return with_numpys_words(both)


var_mean, std_mean = _with_mean(fx.var_mean, "var_mean"), _with_mean(fx.std_mean, "std_mean")


def fill(input: Any, value: Any) -> Tensor:
    """A tensor like ``input`` that holds ``value`` everywhere."""
    return fx.full_like(input, value)


def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Tensor:
    """Borders of a constant, the last axis first."""
    from fx.nn.functional import pad as padded

    return padded(input, list(pad), "constant", value)  # type: ignore[no-any-return]


def gradient(
    input: Any, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Slopes along axes by differences: central ones, at the ends one-sided.

    Args:
        spacing: the distance of neighbours, a number or one an axis; or for each axis a tensor (n,)
            of the places of its elements.
        dim: the axes, all of them unless told.
        edge_order: how many neighbours the slopes at the ends take, 1 or 2.

    Raises:
        ValueError: for another order, or fewer than ``edge_order + 1`` elements along an axis.
    """
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    axes = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    if len({axis % max(input.ndim, 1) for axis in axes}) < len(axes):
        raise ValueError(f"gradient: an axis stands twice in dim={dim}")
    several = isinstance(spacing, tuple | list)
    steps = spacing if several else [1 if spacing is None else spacing] * len(axes)
    if len(steps) != len(axes):
        raise ValueError(f"gradient: spacing has {len(steps)} entries for {len(axes)} axes")
    x = input if input.dtype in fx.dtypes.INEXACT else input.to(default_dtype())
    return tuple([slopes(x, axis, step, edge_order) for axis, step in zip(axes, steps)])


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """One of two functions of the operands, in one graph."""
    return fx.cond(pred, true_fn, false_fn, *operands)


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any, additional_inputs: Any = ()) -> Any:
    """``body_fn`` again and again while ``cond_fn`` holds, in one graph."""
    return fx.while_loop(
        lambda carry: cond_fn(*carry, *additional_inputs),
        lambda carry: tuple(body_fn(*carry, *additional_inputs)),
        tuple(carried_inputs),
    )


def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float, cudnn_enabled: bool = False,
) -> Tensor:  # fmt: skip
    """Normalised over all axes but the second; PyTorch's order of arguments at this place."""
    from fx.nn import functional

    state = running_mean, running_var
    return functional.batch_norm(input, *state, weight, bias, training, momentum, eps)  # type: ignore[no-any-return]


def adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest of each part of the last axis, and where it stands."""
    from fx.nn import functional

    return functional.adaptive_max_pool1d(input, output_size, return_indices=True)  # type: ignore[no-any-return]


def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of ``weight`` that the indices name; -1 for ``padding_idx`` is none."""
    from fx.nn import functional

    return functional.embedding(
        indices, weight, None if padding_idx < 0 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq, sparse=sparse,
    )  # fmt: skip


def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Normalised over the last axes."""
    from fx.nn import functional

    return functional.layer_norm(input, normalized_shape, weight, bias, eps)  # type: ignore[no-any-return]


# questions --------------------------------------------------------------------------------------


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, Tensor)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape."""
    return input.shape == other.shape


def is_inference(input: Tensor) -> bool:
    """False: no tensor of fx is closed to autograd."""
    return False


def typename(obj: Any) -> str:
    """The name of an object's type; of a tensor, that of its dtype."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    cls = obj if isinstance(obj, type) else type(obj)
    return f"{cls.__module__}.{cls.__qualname__}".removeprefix("builtins.")


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that an operation on both has."""
    return TORCH[fx.result_type(tensor1, tensor2)]


def promote_types(type1: Any, type2: Any) -> Any:
    """The dtype that both are converted to."""
    return TORCH[dtypes.promote_types(dtypes.as_dtype(type1), dtypes.as_dtype(type2))]


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that tensors of these shapes broadcast to."""
    return Size(fx.broadcast_shapes(*shapes))


def finfo(type: Any = None) -> Any:
    """The limits of a floating or complex dtype: ``eps``, ``max``, ``min``, ``tiny``, ``bits``."""
    return _named(fx.finfo(default_dtype() if type is None else type))


def iinfo(type: Any) -> Any:
    """The limits of an integer dtype: ``max``, ``min``, ``bits``."""
    return _named(fx.iinfo(type))


def _named(limits: Any) -> Any:
    limits.dtype = limits.dtype.name
    return limits


def get_default_dtype() -> Any:
    """The dtype of Python floats and of new tensors."""
    return TORCH[default_dtype()]


def get_autocast_dtype(device_type: str | None = None) -> Any:
    """The dtype of an autocast region that names none."""
    from fx import amp

    return TORCH[amp.get_autocast_dtype(device_type)]


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a tensor type, ``torch.DoubleTensor``."""
    if isinstance(t, str):
        from fx.torch import _types

        t = getattr(_types, t.rpartition(".")[2])
    set_default_dtype(t.dtype)


def get_default_device() -> Any:
    """The device of new tensors."""
    from fx.devices import as_device

    return as_device()


__all__ = [
    name
    for name, value in globals().items()
    if not name.startswith("_") and callable(value) and not isinstance(value, type)
    and name not in ("into", "with_numpys_words", "set_default_dtype", "default_dtype", "slopes")
]  # fmt: skip
