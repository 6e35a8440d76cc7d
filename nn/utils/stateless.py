"""``functional_call`` under the name of the module where PyTorch first had it."""

from fx.nn.base.skeleton import functional_call

__all__ = ["functional_call"]
