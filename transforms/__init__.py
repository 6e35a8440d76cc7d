"""Transforms: functions that take a function and return one."""

from fx.transforms.batching import vmap
from fx.transforms.forward import jvp
from fx.transforms.reverse import grad, value_and_grad, vjp

__all__ = ["grad", "jvp", "value_and_grad", "vjp", "vmap"]
