"""The vectors of a CPU, and the scalars that kernels compute in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from llvmlite import ir

from fx import limits

_TYPES = {"float32": (ir.FloatType(), 4), "float64": (ir.DoubleType(), 8)}


@dataclass(frozen=True, slots=True)
class Target:
    """The vectors of a CPU: bytes of a register, and how many registers there are."""

    bytes: int
    registers: int


@lru_cache(maxsize=1)
def host() -> Target:
    """What this machine has."""
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        return Target(min(64, limits.VECTOR_BYTES), 32)
    if features.get("avx2"):
        return Target(min(32, limits.VECTOR_BYTES), 16)
    return Target(16, 32 if features.get("neon") else 16)


limits.on_change(host.cache_clear)


def scalar_type(dtype: str) -> tuple[Any, int]:
    """The LLVM type of a dtype that kernels compute in, and its bytes."""
    return _TYPES[dtype]
