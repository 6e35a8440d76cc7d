"""Optimizers and learning-rate schedulers, with PyTorch's names and defaults."""

from importlib import import_module
from typing import Any

from fx.ops.operands import offered as _offered
from fx.optim import lr_scheduler, pure
from fx.optim._hooks import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from fx.optim.adadelta import Adadelta
from fx.optim.adafactor import Adafactor
from fx.optim.adagrad import Adagrad
from fx.optim.adam import Adam, AdamW
from fx.optim.adamax import Adamax
from fx.optim.asgd import ASGD
from fx.optim.lbfgs import LBFGS
from fx.optim.muon import Muon
from fx.optim.nadam import NAdam
from fx.optim.optimizer import Optimizer
from fx.optim.radam import RAdam
from fx.optim.rmsprop import RMSprop
from fx.optim.rprop import Rprop
from fx.optim.sgd import SGD
from fx.optim.sparse_adam import SparseAdam

__all__ = _offered(globals(), "lr_scheduler", "pure", "swa_utils")


def __getattr__(name: str) -> Any:
    """``swa_utils`` when it is first asked for: it needs all of ``fx.nn``."""
    if name == "swa_utils":
        return import_module("fx.optim.swa_utils")
    raise AttributeError(f"module 'fx.optim' has no attribute {name!r}")
