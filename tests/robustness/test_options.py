"""Arguments of the wrong kind or number: what came, what was expected, the line to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx.errors import DTypeError, ShapeError

X = fx.arange(6)
LR = fx.optim.lr_scheduler
TRANSFORMS = fx.data.transforms


def _parameters() -> list[Any]:
    return [fx.nn.Parameter(fx.ones(2))]


def _optimizer() -> Any:
    return fx.optim.SGD(_parameters(), lr=0.1)


CASES = {
    "as_strided": (lambda: X.as_strided((2, 2), (1,)), ShapeError, "one stride a size"),
    "as_strided back": (lambda: X.as_strided((2,), (-1,)), ShapeError, r"x\.flip"),
    "as_strided outside": (lambda: X.as_strided((2, 2), (4, 4)), ShapeError, "element 8 of"),
    "split": (lambda: X.split_with_sizes(fx.sin), DTypeError, "split_sizes must be an int"),
    "vsplit": (lambda: fx.ones(2, 2).vsplit(0), ShapeError, "must be positive, got 0"),
    "is_same_size": (lambda: X.is_same_size(slice(2)), DTypeError, "takes tensors, got slice"),
    "linspace": (lambda: fx.linspace(np.ones(3), 1, 4), ShapeError, r"\(3,\) and \(\); write"),
    "nanquantile": (lambda: fx.ones(2).nanquantile(fx.ones(1, 1)), ShapeError, r"got shape \(1, 1"),
    "quantile": (lambda: fx.quantile(X, 0.5, interpolation=X), ValueError, "must be linear, lower"),
    "histogram": (lambda: fx.ones(3).histogram(2, range=1), ShapeError, r"\(low, high\), got 1"),
    "mvlgamma": (lambda: fx.ones(3).mvlgamma(0), ShapeError, "p must be at least 1, got 0"),
    "switch": (lambda: fx.switch(0, fx.sin), TypeError, r"fx\.switch\(i, \[f, g\], x\)"),
    "jit": (lambda: fx.jit(fx.sin, static_argnums=0.5), TypeError, r"write static_argnums=\(0,\)"),
    "affine_grid": (lambda: F.affine_grid(fx.ones(1, 2, 3), 5, False), ShapeError, "positive size"),
    "celu": (lambda: F.celu(fx.ones(2), 0.0), RuntimeError, "alpha cannot be 0"),
    "lp_pool1d": (lambda: F.lp_pool1d(fx.ones(1, 1, 4), 0, 2), ValueError, "must not be 0; write"),
    "batch_norm": (lambda: fx.nn.BatchNorm1d(3)(fx.ones(1, 3)), ShapeError, "in layer BatchNorm1d"),
    "GroupNorm": (lambda: fx.nn.GroupNorm(0, 4), ValueError, r"divisible by num_groups \(0\)"),
    "LSTM": (
        lambda: fx.nn.LSTM(3, 2)(fx.ones(4, 1, 3), fx.ones(1, 1, 2)),
        DTypeError,
        r"a pair \(h, c\), got Tensor.*\n  in layer LSTM",
    ),
    "LazyLinear": (
        lambda: fx.nn.LazyLinear(3)(X[0]),
        ShapeError,
        r"at least 1 axes, got shape \(\)",
    ),
    "ConvTranspose2d": (
        lambda: fx.nn.ConvTranspose2d(2, 3, 2)(fx.ones(1, 2, 3, 3), output_size=5),
        ShapeError,
        "output_size must have 2 sizes",
    ),
    "pad_packed": (
        lambda: fx.nn.utils.rnn.pad_packed_sequence(X),
        TypeError,
        "takes a PackedSequence, got Tensor",
    ),
    "no parameters": (lambda: fx.nn.utils.parameters_to_vector([]), ShapeError, "no parameter"),
    "trunc_normal_": (
        lambda: fx.nn.init.trunc_normal_(_parameters()[0], std=0.0),
        ValueError,
        "std must be positive, got 0.0",
    ),
    "betas": (lambda: fx.optim.RAdam(_parameters(), betas=0.9), TypeError, r"write betas=\(a, b\)"),
    "Adam": (lambda: fx.optim.Adam(_parameters(), betas=[]), TypeError, "pair of numbers, got"),
    "etas": (lambda: fx.optim.Rprop(_parameters(), etas=0.5), TypeError, "Rprop: etas must be a"),
    "eps": (lambda: fx.optim.Adafactor(_parameters(), eps=1.0), TypeError, "eps must be a pair"),
    "MultiStepLR": (lambda: LR.MultiStepLR(_optimizer(), 5), TypeError, r"milestones=\[30, 80\]"),
    "StepLR": (lambda: LR.StepLR(_optimizer(), 0), ValueError, "step_size must not be 0"),
    "CosineLR": (lambda: LR.CosineAnnealingLR(_optimizer(), 0), ValueError, "T_max must not be 0"),
    "random_split": (lambda: fx.data.random_split([1, 2], 2), TypeError, r"write \[8, 2\]"),
    "BatchSampler": (lambda: fx.data.BatchSampler(3, 2, True), TypeError, "iterable of indices"),
    "DataLoader": (
        lambda: fx.data.DataLoader([1], batch_sampler=2),
        TypeError,
        "write batch_size=",
    ),
    "ColorJitter": (lambda: TRANSFORMS.ColorJitter(hue=(1,)), TypeError, "tuple with length 2"),
    "resize": (lambda: TRANSFORMS.Resize((1, 2, 3))(fx.ones(1, 2, 2)), ValueError, "size"),
    "rotate": (lambda: TRANSFORMS.functional.rotate(X, 3), ShapeError, "is .*height, width.*got"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_message_says_what_to_write(case: Any) -> None:
    call, error, words = case
    with pytest.raises(error, match=words):
        call()


def test_no_more_threads_are_started_than_make_sense() -> None:
    from fx.backends.cpu.llvm.parallel import LIMIT, WORDS, _Native

    pool = _Native()
    pool.words = [0] * WORDS
    pool._start = lambda number: True
    pool.limit(2**62)
    assert pool.words[LIMIT] == pool.workers + 1 <= 1024
