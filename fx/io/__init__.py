"""Files: models and tensors in the formats that others read, and checkpoints of training.

``fx.save`` and ``fx.load`` are the one door to PyTorch's files, safetensors and NumPy's;
``fx.Checkpoint`` keeps a training run resumable; ``fx.progress`` and ``fx.SummaryWriter`` show long
work. README.md tells how the formats and the guarantees work.
"""

from typing import Any

from fx.io import safetensors
from fx.io._progress import progress
from fx.io.checkpoint import Checkpoint
from fx.io.files import load, save, strip_prefix
from fx.io.trust import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from fx.ops.operands import offered as _offered

__all__ = _offered(globals(), "SummaryWriter", "safetensors")


def __getattr__(name: str) -> Any:
    if name == "SummaryWriter":  # its base class is in an optional package
        from fx.io._summary import SummaryWriter

        return SummaryWriter
    raise AttributeError(f"module 'fx.io' has no attribute {name!r}")
