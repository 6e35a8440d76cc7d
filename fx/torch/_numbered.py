"""Functions of ``torch`` that say by number or by place what ``torch.nn.functional`` says by word.

``torch.kl_div(x, y, 2)`` is ``F.kl_div(x, y, reduction="sum")``: the arithmetic is that of ``F``.
Without a number these losses are not reduced, in PyTorch as here.
"""

from __future__ import annotations

from typing import Any

import fx
import fx.nn.functional as F
from fx.nn.functional.dropout import feature_dropout
from fx.nn.functional.inplace import written_form
from fx.tensor import Tensor

_WORDS = {
    "reduction": ("none", "mean", "sum"),
    "mode": ("sum", "mean", "max"),
    "interpolation_mode": ("bilinear", "nearest", "bicubic"),
    "padding_mode": ("zeros", "border", "reflection"),
}
_ROWS = {
    "binary_cross_entropy_with_logits": "input target weight=None pos_weight=None reduction=0",
    "kl_div": "input target reduction=0 log_target=False",
    "ctc_loss": "log_probs targets input_lengths target_lengths blank=0 reduction=0 "
    "zero_infinity=False",
    "cosine_embedding_loss": "input1 input2 target margin=0.0 reduction=0",
    "hinge_embedding_loss": "input target margin=1.0 reduction=0",
    "margin_ranking_loss": "input1 input2 target margin=0.0 reduction=0",
    "poisson_nll_loss": "input target log_input full eps reduction",
    "triplet_margin_loss": "anchor positive negative margin=1.0 p=2.0 eps=1e-06 swap=False "
    "reduction=0",
    "instance_norm": "input weight bias running_mean running_var use_input_stats momentum eps "
    "cudnn_enabled",
    "grid_sampler": "input grid interpolation_mode padding_mode align_corners",
    "affine_grid_generator": "theta size align_corners",
}
_CALLED = {"grid_sampler": "grid_sample", "affine_grid_generator": "affine_grid"}
_RENAMED = {"interpolation_mode": "mode"}
_UNUSED = ("cudnn_enabled",)


def word(name: str, option: str, number: Any) -> str:
    """The word that ``torch.nn.functional`` has for a number.

    Raises:
        ValueError: if it stands for none.
    """
    words = _WORDS[option]
    if not isinstance(number, int) or not 0 <= number < len(words):
        said = ", ".join(f"{i} ({w})" for i, w in enumerate(words))
        raise ValueError(f"torch.{name}: {option} is one of {said}, got {number!r}")
    return words[number]


def _function(name: str, row: str) -> Any:
    """The function of a row: arguments by place or by name, as PyTorch's operator takes them."""
    target = getattr(F, _CALLED.get(name, name))
    # the row becomes a lambda's arguments, so that Python binds them and words its errors
    bind = eval(f"lambda {', '.join(row.split())}: locals()")
    bind.__name__ = bind.__qualname__ = name

    def function(*args: Any, **options: Any) -> Tensor:
        given = bind(*args, **options)
        for option in _WORDS.keys() & given.keys():
            given[option] = word(name, option, given[option])
        passed = {_RENAMED.get(k, k): v for k, v in given.items() if k not in _UNUSED}
        return target(**passed)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``torch.nn.functional.{target.__name__}``; the arguments: {row}."
    return function


globals().update({name: _function(name, row) for name, row in _ROWS.items()})
grid_sampler_2d = grid_sampler_3d = globals()["grid_sampler"]


def embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Bags of embeddings (bags, features) and, of ``F.embedding_bag``'s own affairs, nothing.

    PyTorch's operator gives three tensors more, which its rule of derivatives needs; here these
    are empty.
    """
    bags = F.embedding_bag(
        indices, weight, offsets, scale_grad_by_freq=scale_grad_by_freq,
        mode=word("embedding_bag", "mode", mode), sparse=sparse,
        per_sample_weights=per_sample_weights, include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )  # fmt: skip
    empty = fx.zeros((0,), dtype=fx.int64)
    return bags, empty, empty, empty


def convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Any convolution: as many axes as ``weight`` (out, in, ...) has, transposed or not."""
    kind = f"conv{'_transpose' if transposed else ''}{weight.ndim - 2}d"
    more = {"output_padding": tuple(output_padding)} if transposed else {}
    return getattr(F, kind)(  # type: ignore[no-any-return]
        input, weight, bias, stride=tuple(stride), padding=tuple(padding),
        dilation=tuple(dilation), groups=groups, **more,
    )  # fmt: skip


# with the moments that were used -----------------------------------------------------------------


def _moments(x: Tensor, axes: Any, eps: float, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The mean, and 1 / the deviation."""
    variance, mean = fx.var_mean(x, axes, 0, keepdim)
    return mean, fx.rsqrt(variance + eps)


def native_layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``F.layer_norm``, the mean and 1 / the deviation, (..., 1, 1) both, without gradients."""
    out = F.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    axes = tuple(range(-len(normalized_shape), 0))
    return out, *_moments(input.detach(), axes, eps, True)


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``F.group_norm``, the mean and 1 / the deviation, (N, group) both."""
    out = F.group_norm(input, group, weight, bias, eps)
    return out, *_moments(input.reshape((N, group, C // group * HxW)), -1, eps, False)


def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """``F.batch_norm``, the mean and 1 / the deviation, (C,) both, without gradients.

    Where it does not train these are (0,).
    """
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_zeros((0,)), input.new_zeros((0,))
    axes = tuple(i for i in range(input.ndim) if i != 1)
    return out, *_moments(input.detach(), axes, eps, False)


# dropout -----------------------------------------------------------------------------------------


def native_dropout(input: Any, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``input`` with some elements 0 and the others scaled, and which were kept."""
    if train is False:
        return input.clone(), fx.ones(input.shape, dtype=fx.bool)
    factors = F.dropout(fx.ones_like(input.detach()), p, True)
    return input * factors, factors != 0


dropout_ = written_form(F.dropout)
alpha_dropout_ = written_form(F.alpha_dropout)
feature_alpha_dropout_ = written_form(F.feature_alpha_dropout)
feature_dropout_ = written_form(feature_dropout)
