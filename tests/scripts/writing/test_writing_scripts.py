"""Scripts that write into tensors agree with torch, eagerly and with ``fx.jit`` on their step."""

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.scripts import harness

SCRIPTS = (
    "sinusoidal", "sampler", "kv_cache", "replay_buffer", "names", "forward_forward", "ddpm",
    "manual_sgd", "seq2seq", "mixup", "style_transfer", "moving_average", "contrastive", "codebook",
    "saliency", "sentences", "pgd", "adversarial",
)  # fmt: skip
# those whose step is compiled as well, and how many programs it has in the end, at most: one for
# each shape (forward_forward), one for each course of two draws (seq2seq)
JITTED = {
    "sampler": 1, "replay_buffer": 1, "manual_sgd": 1, "forward_forward": 2, "ddpm": 1,
    "seq2seq": 4, "mixup": 1, "names": 1, "sinusoidal": 1, "moving_average": 1, "contrastive": 1,
    "codebook": 2, "saliency": 1, "kv_cache": 1, "pgd": 1, "adversarial": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def expected():
    """What each script gives under torch, and what it prints."""
    known = {}

    def give(name):
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                result, printed = harness.run(f"writing/{name}", "torch", [], patch)
            known[name] = harness.numbers(result), printed
        return known[name]

    return give


def same(got, expected):
    got = harness.numbers(got)
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        assert got[key].dtype == value.dtype, key
        np.testing.assert_allclose(got[key], value, rtol=1e-8, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", SCRIPTS)
def test_agrees_with_torch(name, expected, monkeypatch):
    want, their_lines = expected(name)
    got, our_lines = harness.run(f"writing/{name}", "fx", [], monkeypatch)
    same(got, want)
    assert our_lines == their_lines


@pytest.mark.parametrize("name", JITTED)
@pytest.mark.filterwarnings("error:jit")
def test_agrees_under_jit(name, expected, monkeypatch):
    got, _ = harness.run(f"writing/{name}", "fx", [], monkeypatch, jit=True)
    assert 1 <= got.pop("programs") <= JITTED[name]
    same(got, expected(name)[0])
