"""Eager reverse mode with PyTorch's names: ``backward``, ``grad``, hooks, ``Function``."""

from fx.autograd.engine import backward, grad
from fx.autograd.function import Function
from fx.config import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]
