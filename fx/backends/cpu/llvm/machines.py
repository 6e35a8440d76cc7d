"""Machines: the one that code is emitted for, and all that an emitter may ask about it.

Emitters ask ``target()`` and nobody else. That is this CPU, or what ``emitting_for`` names: kernels
for another machine come from the same emitters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache

from fx import limits


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine.

    Attributes:
        triple, cpu, features: in LLVM's words: ``x86_64-unknown-linux-gnu``, ``znver4``,
            ``+avx2,-amx-tile``.
        vector_bytes: of a vector.
        registers: how many vectors it holds at once.
        fma: whether a fused multiply-add is one instruction.
        half: whether float16 converts to float32 and back in one instruction.
        near, far: bytes that are reckoned to lie in the second cache, and in the third.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    fma: bool
    half: bool
    near: int
    far: int

    def has(self, *features: str) -> bool:
        """Whether it has all of these features, by LLVM's names."""
        return {f"+{name}" for name in features} <= set(self.features.split(","))

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86", "i"))

    @property
    def is_arm(self) -> bool:
        return self.triple.startswith(("arm", "aarch64"))

    def __str__(self) -> str:
        return f"{self.triple} {self.cpu} {self.features}"


def described(triple: str, cpu: str, features: str, vector_bytes: int = 64) -> Machine:
    """The target of LLVM's words.

    Args:
        triple, cpu, features: see ``Machine``.
        vector_bytes: vectors are not longer, whatever the machine has.

    Example:
        >>> from fx.backends.cpu.llvm.machines import described
        >>> described("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c").registers
        16
    """
    has = {name[1:] for name in features.split(",") if name.startswith("+")}
    arm64 = triple.startswith(("aarch64", "arm64"))
    widest = 64 if "avx512f" in has else 32 if "avx2" in has else 16
    size = min(widest, vector_bytes)
    many = size == 64 or "avx512vl" in has or not triple.startswith(("x86", "i"))
    return Machine(
        triple, cpu, features, size, 32 if many else 16,
        fma=arm64 or "fma" in has,
        half=bool(has & {"f16c", "avx512f", "fullfp16"}),
        near=limits.NEAR_MEMORY, far=limits.FAR_MEMORY,
    )  # fmt: skip


@cache
def host() -> Machine:
    """This CPU, within the limits."""
    from llvmlite import binding

    triple, cpu = str(binding.get_default_triple()), str(binding.get_host_cpu_name())
    features = str(binding.get_host_cpu_features().flatten())
    return described(triple, cpu, features, limits.VECTOR_BYTES)


limits.on_change(host.cache_clear)


@cache
def lane_bytes() -> int:
    """Bytes of the vectors that hold matrices side by side: this CPU's longest, of 32 or 64.

    No limit changes it, for code with such vectors is kept whatever the limits are.
    """
    from llvmlite import binding

    features = str(binding.get_host_cpu_features().flatten())
    return max(32, described(str(binding.get_default_triple()), "", features).vector_bytes)


_other: ContextVar[Machine | None] = ContextVar("target", default=None)


def target() -> Machine:
    """What code is emitted for."""
    return _other.get() or host()


@contextmanager
def emitting_for(machine: Machine) -> Iterator[None]:
    """Emit for another machine, while a block runs: modules whose code does not run here."""
    token = _other.set(machine)
    try:
        yield
    finally:
        _other.reset(token)
