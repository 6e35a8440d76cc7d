"""What scripts call most, on 100 elements: what one eager call costs, unrecorded and recorded.

The work itself takes a fraction of a microsecond here; what is measured is what stands around it.
These rows run only when they are named: ``python -m benchmarks tiny``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

Operation = Callable[[Any], Run]

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(10, 10)).astype(np.float32)
Y = _RANDOM.normal(size=(10, 10)).astype(np.float32)
ROWS = _RANDOM.integers(0, 10, size=10)
PLACES = _RANDOM.integers(0, 10, size=(10, 10))


class Operands:
    """One library's module, and tensors of a hundred elements in it.

    Args:
        m: torch, or the face of fx that has its names.
        recorded: whether ``x`` requires a gradient.
    """

    def __init__(self, m: Any, recorded: bool) -> None:
        self.m = m
        self.F = m.nn.functional
        self.x = m.tensor(X.tolist(), requires_grad=recorded)  # (10, 10)
        self.y = m.tensor(Y.tolist())  # (10, 10)
        self.rows = m.tensor(ROWS.tolist())  # (10,), int64
        self.places = m.tensor(PLACES.tolist())  # (10, 10), int64
        self.mask = self.y > 0  # (10, 10)


DIFFERENTIABLE: dict[str, Callable[[Operands], Run]] = {
    "x[i]": lambda o: lambda: o.x[3],
    "x[i, j]": lambda o: lambda: o.x[3, 4],
    "x[2:5]": lambda o: lambda: o.x[2:5],
    "x[:, 1:]": lambda o: lambda: o.x[:, 1:],
    "x[mask]": lambda o: lambda: o.x[o.mask],
    "x[idx]": lambda o: lambda: o.x[o.rows],
    "x[idx, idx]": lambda o: lambda: o.x[o.rows, o.rows],
    "cat": lambda o: lambda: o.m.cat([o.x, o.y], dim=1),
    "stack": lambda o: lambda: o.m.stack([o.x, o.y]),
    "split": lambda o: lambda: o.m.split(o.x, 5),
    "chunk": lambda o: lambda: o.x.chunk(2, dim=1),
    "unbind": lambda o: lambda: o.x.unbind(0),
    "gather": lambda o: lambda: o.x.gather(1, o.places),
    "scatter_add": lambda o: lambda: o.x.scatter_add(1, o.places, o.y),
    "index_select": lambda o: lambda: o.m.index_select(o.x, 0, o.rows),
    "where": lambda o: lambda: o.m.where(o.mask, o.x, o.y),
    "masked_fill": lambda o: lambda: o.x.masked_fill(o.mask, 0.0),
    "topk": lambda o: lambda: o.m.topk(o.x, 3),
    "sort": lambda o: lambda: o.m.sort(o.x),
    "max(dim)": lambda o: lambda: o.x.max(dim=1),
    "sum": lambda o: lambda: o.x.sum(),
    "sum(dim)": lambda o: lambda: o.x.sum(dim=1),
    "mean": lambda o: lambda: o.x.mean(),
    "softmax": lambda o: lambda: o.F.softmax(o.x, dim=-1),
    "log_softmax": lambda o: lambda: o.F.log_softmax(o.x, dim=-1),
    "relu": lambda o: lambda: o.F.relu(o.x),
    "exp": lambda o: lambda: o.m.exp(o.x),
    "matmul": lambda o: lambda: o.x @ o.y,
    "x * y": lambda o: lambda: o.x * o.y,
    "x + 1.0": lambda o: lambda: o.x + 1.0,
    "x ** 2": lambda o: lambda: o.x**2,
    "clamp": lambda o: lambda: o.x.clamp(0.0, 1.0),
    "pad": lambda o: lambda: o.F.pad(o.x, (1, 1)),
    "transpose": lambda o: lambda: o.x.transpose(0, 1),
    "reshape": lambda o: lambda: o.x.reshape(5, 20),
    "view": lambda o: lambda: o.x.view(-1),
    "expand": lambda o: lambda: o.x.unsqueeze(0).expand(3, -1, -1),
    "cross_entropy": lambda o: lambda: o.F.cross_entropy(o.x, o.rows),
    "mse_loss": lambda o: lambda: o.F.mse_loss(o.x, o.y),
    "linear": lambda o: lambda: o.F.linear(o.y, o.x),
    "embedding": lambda o: lambda: o.F.embedding(o.rows, o.x),
    "item()": lambda o: _item(o),
    "detach": lambda o: lambda: o.x.detach(),
    "to(float64)": lambda o: lambda: o.x.to(o.m.float64),
    "to(float32)": lambda o: lambda: o.x.to(o.m.float32),
}
OTHERS: dict[str, Callable[[Operands], Run]] = {
    "argmax": lambda o: lambda: o.x.argmax(dim=1),
    "x > 0": lambda o: lambda: o.x > 0,
    "x == y": lambda o: lambda: o.x == o.y,
    "randn": lambda o: lambda: o.m.randn(10, 10),
    "rand": lambda o: lambda: o.m.rand(10, 10),
    "randint": lambda o: lambda: o.m.randint(0, 10, (10, 10)),
    "zeros": lambda o: lambda: o.m.zeros(10, 10),
    "zeros_like": lambda o: lambda: o.m.zeros_like(o.x),
    "arange": lambda o: lambda: o.m.arange(100),
    "tensor": lambda o: lambda: o.m.tensor([1.0, 2.0, 3.0]),
    "one_hot": lambda o: lambda: o.F.one_hot(o.rows, 10),
}


def _item(o: Operands) -> Run:
    one = o.x.sum()
    return lambda: one.item()


def _fx() -> Any:
    import fx.torch

    return fx.torch


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)  # beside a busy neighbour its barrier takes milliseconds
    return torch


def _case(title: str, setup: Callable[[Operands], Run], recorded: bool) -> Case:
    name = "".join(c if c.isalnum() else "_" for c in title).strip("_")
    return Case(
        f"tiny_{name}{'_recorded' if recorded else ''}",
        f"`{title}`{', recorded' if recorded else ''}",
        {
            "fx": lambda: setup(Operands(_fx(), recorded)),
            "torch": lambda: setup(Operands(_torch(), recorded)),
        },
        table="tiny",
    )


CASES = [
    *(_case(title, setup, False) for title, setup in {**DIFFERENTIABLE, **OTHERS}.items()),
    *(_case(title, setup, True) for title, setup in DIFFERENTIABLE.items()),
]
