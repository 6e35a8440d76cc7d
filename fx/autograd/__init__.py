"""Eager reverse mode with PyTorch's names: ``backward``, ``grad``, hooks, ``Function``."""

from fx.autograd import functional
from fx.autograd.engine import backward, grad
from fx.autograd.function import Function, once_differentiable
from fx.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from fx.config import enable_grad, inference_mode, no_grad, set_grad_enabled
from fx.ops.operands import offered as _offered

__all__ = _offered(globals(), "functional")
