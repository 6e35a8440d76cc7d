"""Names that PyTorch had before the underscore; each warns and does the same."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from fx.nn.init import distributions, scaled, structured


def _old(function: Callable[..., Any]) -> Callable[..., Any]:
    new = function.__name__
    old = new[:-1]

    def initialise(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    initialise.__name__ = initialise.__qualname__ = old
    initialise.__doc__ = f"The old name of ``{new}``; it warns."
    return initialise


uniform = _old(distributions.uniform_)
normal = _old(distributions.normal_)
constant = _old(distributions.constant_)
eye = _old(structured.eye_)
dirac = _old(structured.dirac_)
orthogonal = _old(structured.orthogonal_)
sparse = _old(structured.sparse_)
xavier_uniform = _old(scaled.xavier_uniform_)
xavier_normal = _old(scaled.xavier_normal_)
kaiming_uniform = _old(scaled.kaiming_uniform_)
kaiming_normal = _old(scaled.kaiming_normal_)
