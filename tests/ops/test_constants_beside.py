"""Constants that a function makes lie where its operands do."""

import numpy as np
import pytest

import fx
import fx.torch as torch

F = fx.nn.functional
RNG = np.random.default_rng(0)
X = RNG.uniform(0.5, 2.0, (6, 5)).astype("float32")
LABELS = np.array([[1, 2], [3, 1]])
SPECTRA = RNG.normal(size=(9, 5)).astype("complex64")

CASES = {
    "gradient": lambda x: torch.gradient(x, spacing=0.5)[0],
    "polyder": lambda x: fx.polyder(x[0], 2),
    "polyint": lambda x: fx.polyint(x[0], 2, [1.0, 2.0]),
    "delete": lambda x: fx.delete(x, [1, 2], axis=0),
    "companion": lambda x: fx.linalg.companion(x[0]),
    "histogramdd": lambda x: torch.histogramdd(x[:, :2], bins=[x[0].cumsum(0)] * 2)[0],
    "masked.var": lambda x: torch.masked.var(x, 1, unbiased=False),
    "svd_lowrank": lambda x: torch.svd_lowrank(x, 3)[1],
    "ctc_loss": lambda x: F.ctc_loss(
        x.reshape(5, 2, 3).repeat(1, 1, 2), x.new_tensor(LABELS, dtype=fx.int64), [5, 4], [2, 1]
    ),
    "nll_loss": lambda x: F.nll_loss(x[0], 2),
    "cross_entropy": lambda x: F.cross_entropy(x[0], 2),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x[0], 2),
    "istft": lambda x: torch.istft(
        x.new_tensor(SPECTRA, dtype=fx.complex64), 16, return_complex=False
    ),
    "gammainc": lambda x: fx.grad(lambda a: fx.special.gammainc(a, x).sum())(x),
}


@pytest.mark.parametrize("name", CASES)
def test_meta_knows_the_shapes(name):
    want, got = CASES[name](fx.asarray(X)), CASES[name](fx.asarray(X).to("meta"))
    assert got.device.type == "meta"
    assert (got.shape, got.dtype) == (want.shape, want.dtype)


def test_tensors_of_the_user_are_not_moved():
    classes = fx.tensor([1, 2, 0, 1, 2, 0])
    with pytest.raises(fx.errors.DeviceError, match="different devices"):
        F.nll_loss(fx.asarray(X).to("meta"), classes)
