"""Optimizers and learning-rate schedulers, with PyTorch's names and defaults."""

from fx.optim import lr_scheduler, pure
from fx.optim.adam import Adam, AdamW
from fx.optim.optimizer import Optimizer
from fx.optim.rmsprop import RMSprop
from fx.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler", "pure"]
