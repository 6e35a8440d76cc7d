"""Optimizers with options to compare with torch's, and what trains them in both libraries."""

import numpy as np
import torch

import fx
from tests.nn.oracle import arrays

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True}),
    ("SGD", {"lr": 0.01, "maximize": True}),
    ("Adam", {"lr": 0.1}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "amsgrad": True}),
    ("Adam", {"lr": 0.01, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.1}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.2, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "maximize": True}),
    ("Adamax", {"lr": 0.1}),
    ("Adamax", {"betas": (0.7, 0.8), "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1}),
    ("NAdam", {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.1, "momentum_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}),
    ("RAdam", {"lr": 0.1}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.5)}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.7, "eps": 1e-2, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"lr": 0.01}),
    ("RMSprop", {"lr": 0.01, "alpha": 0.8, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9}),
    ("RMSprop", {"lr": 0.01, "momentum": 0.5, "centered": True, "maximize": True}),
    ("Rprop", {"lr": 0.1}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.01, 0.2), "maximize": True}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3, "weight_decay": 0.1}),
    ("ASGD", {"lr": 0.01, "t0": 2, "maximize": True}),
    ("Adafactor", {"lr": 0.1}),
    ("Adafactor", {"lr": 0.1, "beta2_decay": -0.5, "eps": (1e-4, 0.5), "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.2, "d": 2.0, "maximize": True}),
]
MATRICES = [
    ("Muon", {}),
    ("Muon", {"lr": 0.1, "momentum": 0.5, "nesterov": False, "weight_decay": 0.0}),
    ("Muon", {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3, "eps": 1e-3}),
    ("Muon", {"ns_coefficients": (2.0, -1.5, 0.5), "adjust_lr_fn": "original"}),
]
SHAPES = [(3, 4), (4,), (), (2, 3, 2)]
PURE = {"SparseAdam": "sparse_adam"}


def pure_of(name):
    return getattr(fx.optim.pure, PURE.get(name, name.lower()))


def shapes_of(name):
    return [(3, 4), (6, 2), (5, 5)] if name == "Muon" else SHAPES


def start(shapes=SHAPES, dtype="float64", seed=0):
    return arrays(*shapes, dtype=dtype, seed=seed)


def loss(ws, step, lib):
    """A loss whose gradients change their signs now and then."""
    return sum((lib.tanh(w * (1.0 + step % 3)) * w + lib.sin(3 * w + step)).sum() for w in ws)


def fx_loss(ws, step):
    return loss(ws, step, fx)


def torch_loss(ws, step):
    return loss(ws, step, torch)


def pair(name, options, dtype="float64"):
    """The same parameters and optimizer in both libraries."""
    values = start(shapes_of(name), dtype)
    ours = [fx.nn.Parameter(fx.tensor(a)) for a in values]
    theirs = [torch.nn.Parameter(torch.tensor(a)) for a in values]
    return (
        ours,
        theirs,
        getattr(fx.optim, name)(ours, **options),
        getattr(torch.optim, name)(theirs, **options),
    )


def advance(optimizer, ws, loss, steps, start=0):
    for step in range(start, start + steps):
        optimizer.zero_grad()
        loss(ws, step).backward()
        optimizer.step()


def to_torch(state):
    """A state dict of ours with torch's tensors."""
    if isinstance(state, fx.Tensor):
        return torch.tensor(np.array(state.numpy()))
    if isinstance(state, dict):
        return {k: to_torch(v) for k, v in state.items()}
    if isinstance(state, list | tuple):
        return type(state)(to_torch(v) for v in state)
    return state
