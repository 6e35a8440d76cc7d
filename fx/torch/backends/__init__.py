"""``torch.backends``: flags that scripts set, and what is not there."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from fx.torch._settings import flags


def _false() -> bool:
    return False


def _true() -> bool:
    return True


class _Flags:
    """A namespace of flags: what is written is read back, and changes nothing."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _room(name: str, doc: str, **values: Any) -> ModuleType:
    """A module of flags, so that ``import torch.backends.cudnn as cudnn`` works too."""
    module = ModuleType(f"{__name__}.{name}", doc)
    module.__dict__.update(values)
    sys.modules[module.__name__] = module
    return module


cudnn = _room(
    "cudnn",
    "cuDNN, which is not there.",
    enabled=False, benchmark=False, deterministic=False, allow_tf32=False, flags=flags,
    is_available=_false, version=lambda: None,
)  # fmt: skip
cuda = _room(
    "cuda",
    "CUDA, which is not there.",
    is_built=_false,
    matmul=_Flags(allow_tf32=False, allow_fp16_reduced_precision_reduction=True),
    enable_flash_sdp=lambda enabled: None,
    enable_mem_efficient_sdp=lambda enabled: None,
    enable_math_sdp=lambda enabled: None,
    flash_sdp_enabled=_false,
    mem_efficient_sdp_enabled=_false,
    math_sdp_enabled=_true,
)
mps = _room("mps", "Apple's GPUs, which are not there.", is_available=_false, is_built=_false)
mkl = _room("mkl", "MKL, which fx does not use.", is_available=_false)
mkldnn = _room(
    "mkldnn", "oneDNN, which fx does not use.", is_available=_false, enabled=False, flags=flags
)
openmp = _room("openmp", "OpenMP, on which fx's threads stand.", is_available=_true)
opt_einsum = _room(
    "opt_einsum", "The order of products in einsum.",
    is_available=_true, enabled=True, strategy="auto",
)  # fmt: skip
