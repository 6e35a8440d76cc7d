"""The small datasets that scikit-learn carries with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.data.dataset import TensorDataset
from fx.ops.making.interop import from_numpy

NAMES = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")


def bundled(name: str, dtype: Any = "float32") -> TensorDataset:
    """A dataset that scikit-learn carries with it, as tensors.

    Args:
        name: ``"breast_cancer"``, ``"diabetes"``, ``"digits"``, ``"iris"``, ``"linnerud"`` or
            ``"wine"``.
        dtype: of the features, and of targets that are no classes.

    Returns:
        features (n, features), and classes (n,) of int64 or targets (n,) or (n, targets); with the
        attributes ``classes`` and ``feature_names``.

    Raises:
        ValueError: for another name.
        ModuleNotFoundError: if scikit-learn is not installed.

    Example:
        >>> import fx
        >>> iris = fx.data.datasets.bundled("iris")
        >>> iris.tensors[0].shape, iris.classes
        ((150, 4), ['setosa', 'versicolor', 'virginica'])
    """
    if name not in NAMES:
        raise ValueError(f"bundled: scikit-learn carries {', '.join(NAMES)}, not {name!r}")
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "bundled: these datasets come with scikit-learn, which is not installed; write "
            "pip install scikit-learn",
            name=error.name,
        ) from None
    found = getattr(datasets, f"load_{name}")()
    target = np.asarray(found.target)
    whole = target.dtype.kind in "iu"
    out = TensorDataset(
        from_numpy(np.asarray(found.data).astype(dtype)),
        from_numpy(target.astype(np.int64 if whole else dtype)),
    )
    out.classes = [str(n) for n in found.target_names] if whole else []  # type: ignore[attr-defined]
    out.feature_names = [str(n) for n in found.feature_names]  # type: ignore[attr-defined]
    return out
