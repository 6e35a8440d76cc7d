"""Optimizers as pure functions: ``init(params) -> state``, ``update(grads, state, params)``."""

from fx.ops.operands import offered as _offered
from fx.optim._pure import Pure, Scheduled, State, Transform, schedule
from fx.optim.adadelta import adadelta
from fx.optim.adafactor import adafactor
from fx.optim.adagrad import adagrad
from fx.optim.adam import adam, adamw
from fx.optim.adamax import adamax
from fx.optim.asgd import asgd
from fx.optim.lbfgs import lbfgs
from fx.optim.muon import muon
from fx.optim.nadam import nadam
from fx.optim.pure import schedules
from fx.optim.pure.transforms import (
    add_decayed_weights,
    chain,
    clip,
    clip_by_global_norm,
    global_norm,
    scale,
    stateless,
)
from fx.optim.pure.wrappers import ema, masked, multi_steps
from fx.optim.radam import radam
from fx.optim.rmsprop import rmsprop
from fx.optim.rprop import rprop
from fx.optim.sgd import sgd
from fx.optim.sparse_adam import sparse_adam

__all__ = _offered(globals(), "schedules")
