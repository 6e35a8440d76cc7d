"""Plain distributions and constants."""

from __future__ import annotations

import warnings
from typing import Any

import fx.prims.elementwise as elementwise
from fx import random
from fx.nn.base.factory import filled
from fx.nn.init.cells import as_cell, draw_normal, draw_uniform, put
from fx.prims.creation import constant_like


def uniform_(tensor: Any, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Any:
    """Uniform values in [a, b).

    Raises:
        InPlaceError: if ``tensor`` is no Parameter or Buffer; so do all initialisers.

    Example:
        >>> import fx
        >>> weight = fx.nn.init.uniform_(fx.nn.Parameter(fx.zeros(100)), 1.0, 2.0)
        >>> bool(((weight >= 1) & (weight < 2)).all())
        True
    """
    cell = as_cell("uniform_", tensor)
    return put(cell, draw_uniform(cell, a, b, generator))


def normal_(tensor: Any, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Any:
    """Normal values.

    Example:
        >>> import fx
        >>> fx.nn.init.normal_(fx.nn.Parameter(fx.zeros((3, 2))), std=0.02).shape
        (3, 2)
    """
    cell = as_cell("normal_", tensor)
    return put(cell, draw_normal(cell, mean, std, generator))


def trunc_normal_(
    tensor: Any,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Any:
    """Values of the normal distribution that is cut to [a, b].

    Example:
        >>> import fx
        >>> weight = fx.nn.init.trunc_normal_(fx.nn.Parameter(fx.zeros(1000)), a=-1.0, b=1.0)
        >>> bool((abs(weight) <= 1).all())
        True
    """
    cell = as_cell("trunc_normal_", tensor)
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            f"init.trunc_normal_: mean {mean} is more than 2 std {std} from [{a}, {b}]: the values "
            f"crowd at one end",
            stacklevel=2,
        )
    if not std > 0:
        raise ValueError(f"trunc_normal_: std must be positive, got {std}")
    key = random.next_key(generator, cell.device)
    low, high = (a - mean) / std, (b - mean) / std
    x = random.truncated_normal(key, low, high, cell.shape, cell.dtype)
    if std != 1 or mean:
        x = x * std + mean  # which may round past the ends
        low, high = constant_like(a, x), constant_like(b, x)
        x = elementwise.minimum(elementwise.maximum(x, low), high)
    return put(cell, x)


def constant_(tensor: Any, val: float) -> Any:
    """``val`` everywhere.

    Example:
        >>> import fx
        >>> fx.nn.init.constant_(fx.nn.Buffer(fx.zeros(2)), 3.0)
        tensor([3., 3.])
    """
    cell = as_cell("constant_", tensor)
    return put(cell, filled(cell.shape, val, cell.device, cell.dtype))


def ones_(tensor: Any) -> Any:
    """Ones.

    Example:
        >>> import fx
        >>> fx.nn.init.ones_(fx.nn.Buffer(fx.zeros(2)))
        tensor([1., 1.])
    """
    return constant_(tensor, 1)


def zeros_(tensor: Any) -> Any:
    """Zeros.

    Example:
        >>> import fx
        >>> fx.nn.init.zeros_(fx.nn.Buffer(fx.ones(2)))
        tensor([0., 0.])
    """
    return constant_(tensor, 0)
