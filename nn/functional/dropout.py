"""Dropout: of elements, of whole channels, and to the value that keeps mean and variance."""

from __future__ import annotations

import warnings
from math import sqrt
from typing import Any

import fx.prims.compare as compare
from fx.errors import ShapeError
from fx.ops.operands import cast, floating
from fx.prims.creation import constant_like
from fx.random.parametrized import mask
from fx.tensor import Tensor
from fx.writing.inplace import may_write


@may_write
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    The random numbers are those of the current generator; under ``vmap`` each lane has its own.

    Args:
        input: any shape, floating.
        p: the probability, in [0, 1].
        training: False gives the input back.
        inplace: accepted for PyTorch's sake.

    Raises:
        ValueError: if ``p`` is not in [0, 1].

    Source: Srivastava et al., "Dropout", 2014.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.dropout(fx.ones(1000), p=0.25)
        >>> bool(((x == 0) | (x == 4 / 3)).all())
        True
    """
    _check(p)
    x = floating("dropout", input)
    return _dropped(x, p, x._shape) if training and p else x


def _check(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _dropped(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """``x`` with what a mask of ``shape`` hits zeroed and the rest scaled."""
    kept = mask(1.0 - p, shape, x.device)
    scaled = x * (1.0 / (1.0 - p) if p < 1 else 0.0)
    return compare.chosen(kept, scaled, constant_like(0.0, x))  # type: ignore[no-any-return]


def _channels(x: Tensor, batch: bool = True) -> tuple[int, ...]:
    """The shape of a mask with one entry a channel."""
    lead = 2 if batch else 1
    return (*x._shape[:lead], *[1] * (x.ndim - lead))


@may_write
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channels, length) or (channels, length); see ``dropout2d``.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.dropout1d(fx.ones((8, 3, 5)))
        >>> bool((x == x[..., :1]).all())
        True
    """
    _check(p)
    x = floating("dropout1d", input)
    if x.ndim not in (2, 3):
        raise ShapeError(
            f"dropout1d: expected (batch, channels, length) or (channels, length), got shape "
            f"{x.shape}; write dropout for other inputs"
        )
    return _dropped(x, p, _channels(x, x.ndim == 3)) if training and p else x


@may_write
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        input: (batch, channels, height, width). With three axes it is taken to be (batch,
            channels, length), as in PyTorch, with a warning.
        p: the probability, in [0, 1].
        training: False gives the input back.
        inplace: accepted for PyTorch's sake.

    Raises:
        ValueError: if ``p`` is not in [0, 1].
        ShapeError: for fewer than two axes.

    Source: Tompson et al., "Efficient object localization using convolutional networks", 2014.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.dropout2d(fx.ones((8, 3, 5, 5)))
        >>> bool((x == x[..., :1, :1]).all())
        True
    """
    _check(p)
    x = floating("dropout2d", input)
    _warn("dropout2d", x, (3, 4))
    if x.ndim == 3:
        warnings.warn(
            "dropout2d: received a 3D input, which is taken to be (batch, channels, length); "
            "write dropout1d to say so",
            stacklevel=2,
        )
    return _dropped(x, p, _channels(x)) if training and p else x


@may_write
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero whole channels of (batch, channels, depth, height, width), or without the batch axis.

    See ``dropout2d``.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.dropout3d(fx.ones((8, 3, 2, 2, 2)))
        >>> bool((x == x[..., :1, :1, :1]).all())
        True
    """
    _check(p)
    x = floating("dropout3d", input)
    _warn("dropout3d", x, (4, 5))
    return _dropped(x, p, _channels(x, x.ndim == 5)) if training and p else x


def feature_dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero whole channels of (batch, channels, ...); ``torch.feature_dropout``.

    Raises:
        ValueError, ShapeError: as of ``dropout2d``.
    """
    _check(p)
    x = floating("feature_dropout", input)
    if x.ndim < 2:
        raise ShapeError(f"feature_dropout takes (batch, channels, ...), got shape {x.shape}")
    return _dropped(x, p, _channels(x)) if training and p else x


def _warn(name: str, x: Tensor, ranks: tuple[int, int]) -> None:
    if x.ndim < 2:
        raise ShapeError(f"{name}: expected (batch, channels, ...), got shape {x.shape}")
    if x.ndim not in ranks:
        warnings.warn(
            f"{name}: received a {x.ndim}-D input, where {ranks[0]} or {ranks[1]} axes are "
            f"expected; write dropout to zero single elements",
            stacklevel=3,
        )


@may_write
def alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout for ``selu`` networks: mean 0 and variance 1 stay.

    Elements become the negative limit of ``selu`` instead of 0, and all are scaled and shifted.

    Args:
        input: any shape, floating.
        p: the probability, in [0, 1].
        training: False, the default, gives the input back.
        inplace: accepted for PyTorch's sake.

    Raises:
        ValueError: if ``p`` is not in [0, 1].

    Source: Klambauer et al., "Self-normalizing neural networks", 2017.

    Example:
        >>> import fx
        >>> fx.nn.functional.alpha_dropout(fx.zeros(1000), p=0.5, training=True).unique()
        tensor([-0.7792,  0.7792])
    """
    _check(p)
    x = floating("alpha_dropout", input)
    return _alpha_dropped(x, p, x._shape) if training and p else x


@may_write
def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """``alpha_dropout`` of whole channels of (batch, channels, ...).

    Raises:
        ValueError: if ``p`` is not in [0, 1].
        ShapeError: for fewer than two axes.

    Example:
        >>> import fx
        >>> x = fx.nn.functional.feature_alpha_dropout(fx.ones((4, 3, 5)), training=True)
        >>> bool((x == x[..., :1]).all())
        True
    """
    _check(p)
    x = floating("feature_alpha_dropout", input)
    if x.ndim < 2:
        raise ShapeError(
            f"feature_alpha_dropout: expected (batch, channels, ...), got shape {x.shape}"
        )
    return _alpha_dropped(x, p, _channels(x)) if training and p else x


def _alpha_dropped(x: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    if p == 1:
        return x * 0.0
    limit = 1.7580993408473766  # scale * alpha of selu
    a = 1.0 / sqrt((limit * limit * p + 1.0) * (1.0 - p))
    kept = cast(mask(1.0 - p, shape, x.device), x._dtype)
    return x * (kept * a) + ((kept - 1.0) * (limit * a) + limit * a * p)
