"""Optimizers as pure functions: ``init(params) -> state``, ``update(grads, state, params)``."""

from fx.optim._rule import Pure, State
from fx.optim.adam import adam, adamw
from fx.optim.rmsprop import rmsprop
from fx.optim.sgd import sgd

__all__ = ["Pure", "State", "adam", "adamw", "rmsprop", "sgd"]
