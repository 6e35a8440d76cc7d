"""All laws together: the registry they are derived from, and the check of one primitive."""

from __future__ import annotations

import importlib
import pkgutil
import random

import fx.prims
from fx.primitive import Primitive, registry
from fx.testing import cuts, derivatives, kernels, lanes, recording  # noqa: F401 - they hold laws
from fx.testing.case import draw
from fx.testing.compiled import compiled_is_the_kernel
from fx.testing.kernels import Oracle, against_oracle
from fx.testing.law import LAWS, Law
from fx.testing.words import broken_words


def all_primitives() -> dict[str, Primitive]:
    """Every registered primitive by name, after importing every module of ``fx.prims``.

    Example:
        >>> import fx.testing
        >>> "tanh" in fx.testing.all_primitives()
        True
    """
    for module in pkgutil.iter_modules(fx.prims.__path__):
        importlib.import_module(f"fx.prims.{module.name}")
    return dict(sorted(registry.items()))


def primitive(name: str) -> Primitive:
    """The primitive of that name.

    Raises:
        KeyError: if there is none.
    """
    return registry[name] if name in registry else all_primitives()[name]


def check_primitive(
    primitive: Primitive,
    examples: int = 20,
    oracle: Oracle | None = None,
    tolerance: float = 1e-12,
    seed: int = 0,
) -> None:
    """Check every rule of a primitive against every law: call it in the test of one you add.

    Args:
        primitive: what ``define`` returned.
        examples: how many samples are drawn for each law.
        oracle: ``(*arrays, **params) -> array`` or a tuple of arrays, written independently of the
            kernel. Without one a kernel and derivatives that are wrong in the same way pass.
        tolerance: of the kernel against the oracle, relative.
        seed: of the samples.

    Raises:
        LawBroken: naming the primitive, the rule, the law, what came out and what should have.

    Example:
        >>> import math
        >>> import numpy as np
        >>> import fx.testing
        >>> tanh = fx.testing.primitive("tanh")
        >>> fx.testing.check_primitive(tanh, examples=3, oracle=np.vectorize(math.tanh))
    """
    laws = [*LAWS.values(), *([against_oracle(oracle, tolerance)] if oracle else [])]
    for one in laws:
        check_law(one, primitive, examples, seed)
    for k in range(max(examples // 5, 1)):
        compiled_is_the_kernel(primitive, draw(primitive, random.Random(seed + k)))
    for error in broken_words(primitive).values():
        raise error


def check_law(one: Law, primitive: Primitive, examples: int = 20, seed: int = 0) -> None:
    """Check one law on drawn samples.

    Raises:
        LawBroken: at the first sample that breaks it.
    """
    if one.applies(primitive):
        for k in range(examples):
            one(primitive, draw(primitive, random.Random(seed + k)))
