"""Optimizers as pure functions: ``init(params) -> state``, ``update(grads, state, params)``."""

from fx.optim._pure import Pure, Scheduled, State, Transform, schedule
from fx.optim.adadelta import adadelta
from fx.optim.adafactor import adafactor
from fx.optim.adagrad import adagrad
from fx.optim.adam import adam, adamw
from fx.optim.adamax import adamax
from fx.optim.asgd import asgd
from fx.optim.muon import muon
from fx.optim.nadam import nadam
from fx.optim.radam import radam
from fx.optim.rmsprop import rmsprop
from fx.optim.rprop import rprop
from fx.optim.sgd import sgd
from fx.optim.sparse_adam import sparse_adam

__all__ = [
    "Pure",
    "Scheduled",
    "State",
    "Transform",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "muon",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "schedule",
    "sgd",
    "sparse_adam",
]
