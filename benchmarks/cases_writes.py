"""What scripts write, on small tensors: what one eager line costs, in place or recorded.

A row is the text of a line, and runs in a module that has ``torch``, or fx by that name: it is the
module that writes. These rows run only when they are named: ``python -m benchmarks writes``.
"""

from __future__ import annotations

import types
from typing import Any

from benchmarks.harness import Case, Run

SETUP = """
torch.manual_seed(0)
x, y, k = torch.randn(10, 10), torch.randn(10, 10), torch.randn(10)  # plain
w = torch.randn(10, 10, requires_grad=True)  # a leaf
w.grad = torch.randn(10, 10)
p = torch.nn.Parameter(torch.randn(10, 10))
p.grad = torch.randn(10, 10)
mask, rows, places = y > 0, torch.randint(0, 10, (10,)), torch.randint(0, 10, (10, 10))
cache, keys = torch.zeros(4, 32, 2, 4), torch.randn(4, 1, 2, 4)
counts = torch.zeros(10, 10, dtype=torch.int32)
long = torch.zeros(1000)
x[0, 0] = 0.0
"""
PLAIN = (
    "x[3] = 1.0",
    "x[3] = k",
    "x[3, 4] = 1.0",
    "x[:, 3] = k",
    "x[2:5] = 0.0",
    "x[...] = y",
    "x[mask] = 0.0",
    "x[rows] = 0.0",
    "x[3] += 1.0",
    "x[3, 4] *= -1.0",
    "counts[3, 4] += 1",
    "x[:, 3] += k",
    "long[7] = 1.0",
    "cache[:, 5:6] = keys",
    "x += 1.0",
    "x += y",
    "x *= -1.0",
    "x.add_(y, alpha=0.1)",
    "x.mul_(-1.0).add_(y, alpha=0.1)",
    "x.addcmul_(y, y, value=0.1)",
    "x.lerp_(y, 0.1)",
    "x.zero_()",
    "x.fill_(2.0)",
    "x.copy_(y)",
    "x.masked_fill_(mask, 0.0)",
    "x.clamp_(0.0, 1.0)",
    "x.relu_()",
    "x.exp_()",
    "x.normal_()",
    "x.uniform_()",
    "x.scatter_(1, places, 1.0)",
    "x.scatter_add_(1, places, y)",
    "x.index_fill_(0, rows, 1.0)",
    "x.index_add_(0, rows, y)",
    "row = x[3]; row += 1.0",
    "x[3].add_(1.0)",
    "x[3][4] = 1.0",
    "x.view(-1)[7] = 1.0",
    "x.t()[3] = k",
    "x.diagonal().fill_(0.0)",
    "z = y.clone(); z += 1.0",
    "z = torch.zeros(10, 10); z[3] = k",
    "x[3] = k; x[3]",
    "x[3]",
    "x + y",
    "torch.add(x, y, out=x)",
    "x.data.add_(y)",
    "x.detach().mul_(-1.0)",
    "x.shape",
    "x.size()",
    "x.dtype",
    "x.to('cpu')",
    "x.contiguous()",
    "x.view(-1)",
)
LEAVES = (
    "w.grad.zero_()",
    "p.grad.zero_()",
    "p.grad.mul_(-1.0)",
    "w.data.add_(w.grad, alpha=-0.001)",
    "w.data += -0.001 * w.grad",
    "p.data.add_(p.grad, alpha=-0.001)",
    "p.data += -0.001 * p.grad",
    "p.data.clamp_(-1.0, 1.0)",
    "with torch.no_grad(): w -= 0.001 * w.grad",
    "with torch.no_grad(): p -= 0.001 * p.grad",
    "with torch.no_grad(): w.sub_(w.grad, alpha=0.001)",
    "with torch.no_grad(): p.sub_(p.grad, alpha=0.001)",
    "with torch.no_grad(): w[3] = 1.0",
    "with torch.no_grad(): p[3] = 1.0",
    "with torch.no_grad(): w.fill_(1.0)",
    "with torch.no_grad(): p.copy_(y)",
    "p.detach()",
    "p[0]",
    "p.diagonal()",
    "p.view(-1)",
    "p.t()",
    "p.shape",
    "p.requires_grad",
    "p.grad",
    "p.data",
)
RECORDED = (
    "h = w * 2.0",  # what stands before each of the others
    "h = w * 2.0; h[3] = 1.0",
    "h = w * 2.0; h[3] = k",
    "h = w * 2.0; h[:, 3] += k",
    "h = w * 2.0; h[mask] = 0.0",
    "h = w * 2.0; h += y",
    "h = w * 2.0; h *= 0.9",
    "h = w * 2.0; h.add_(y, alpha=0.1)",
    "h = w * 2.0; h.relu_()",
    "h = w * 2.0; h.masked_fill_(mask, 0.0)",
    "h = w * 2.0; h.zero_()",
    "z = torch.zeros(10, 10); z[3] = w[3]",
    "z = torch.zeros(10, 10); z[:, 3] = w[3]; z.sum().backward()",
)


def _fx() -> Any:
    import fx.torch

    return fx.torch


def _torch() -> Any:
    import torch

    torch.set_num_threads(1)  # beside a busy neighbour its barrier takes milliseconds
    return torch


def _run(library: Any, line: str) -> Run:
    module = types.ModuleType("script")
    module.__dict__["torch"] = library
    exec(SETUP, module.__dict__)
    names = "global w, p" if line in LEAVES else "global x, counts"
    body = line if line.startswith("with") else "\n    ".join(line.split("; "))
    exec(f"def run():\n    {names}\n    {body}", module.__dict__)
    run: Run = module.__dict__["run"]
    return run


_WORDS = {
    "+=": "add",
    "-=": "sub",
    "*=": "mul",
    "+": "plus",
    ":,": "all",
    "=": "to",
    "][": "then",
    "_(": "in place",
}


def _case(line: str) -> Case:
    words = line
    for sign, word in _WORDS.items():
        words = words.replace(sign, f" {word} ")
    name = "_".join("".join(c if c.isalnum() else " " for c in words).split())
    return Case(
        f"writes_{name}",
        f"`{line}`",
        {"fx": lambda: _run(_fx(), line), "torch": lambda: _run(_torch(), line)},
        table="writes",
    )


CASES = [_case(line) for line in (*PLAIN, *LEAVES, *RECORDED)]
