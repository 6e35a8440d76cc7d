"""``torch.distributed.checkpoint.format_utils``: from a folder of ranks to one file, and back."""

from __future__ import annotations

from typing import Any

from fx.distributed.checkpoint import save as _save
from fx.distributed.checkpoint import whole_state as _whole_state
from fx.io import load as _load
from fx.io import save as _save_file
from fx.torch._absent import refusing


def dcp_to_torch_save(dcp_checkpoint_dir: Any, torch_save_path: Any) -> None:
    """Write all that a folder has into one file, as ``torch.save`` does."""
    _save_file(_whole_state(dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path: Any, dcp_checkpoint_dir: Any) -> None:
    """Save what one file has into a folder, which any number of ranks loads."""
    _save(_load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


__getattr__ = refusing("distributed.checkpoint.format_utils")
