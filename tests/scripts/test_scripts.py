"""Each script agrees with torch step by step, and with itself under ``fx.jit``."""

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.scripts import harness

# name: arguments of the run, the option that says how long it is
SCRIPTS = {
    "linear_regression": (["--epochs", 8], "--epochs"),
    "image_classifier": (["--samples", 320, "--epochs", 2], "--epochs"),
    "char_gpt": (["--steps", 6, "--new-tokens", 12], "--steps"),
    "vae": (["--samples", 256, "--epochs", 2], "--epochs"),
    "dcgan": (["--samples", 192, "--niter", 2, "--manualSeed", 3], "--niter"),
    "lstm_tagger": (["--size", 32, "--epochs", 2], "--epochs"),
    "dqn": (["--episodes", 4], "--episodes"),
    "resnet18": (["--size", 24, "--width", 4, "--batch-size", 8, "--epochs", 1], "--epochs"),
}


@pytest.fixture
def weights(tmp_path, monkeypatch):
    """Makes a checkpoint of untrained weights, written by torch."""

    def make(name):
        arguments, length = SCRIPTS[name]
        path = tmp_path / f"{name}.pt"
        untrained = [*arguments, length, 0, "--save", path]
        harness.run(name, "torch", untrained, monkeypatch)
        return path

    return make


def same(got, expected, rtol, atol):
    """Equal results: losses step by step, and all that ``main`` gives."""
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(got[key], value, rtol=rtol, atol=atol, err_msg=key)


@pytest.mark.parametrize("name", SCRIPTS)
def test_agrees_with_torch(name, weights, tmp_path, monkeypatch):
    """In float64 only the order of additions differs: ten digits are left after the last step."""
    import torch

    import fx.torch

    arguments = [*SCRIPTS[name][0], "--resume", weights(name)]
    results, saved = {}, {}
    for library in harness.LIBRARIES:
        path = tmp_path / f"{library}.pt"
        result, printed = harness.run(name, library, [*arguments, "--save", path], monkeypatch)
        results[library] = harness.numbers(result), printed.replace(str(path), "")
        saved[library] = path
    (expected, their_lines), (got, our_lines) = results["torch"], results["fx"]
    assert len(expected["losses"]) >= 3
    same(got, expected, rtol=1e-8, atol=1e-9)
    assert our_lines == their_lines
    # each opens the other's file, and finds the same in it
    for reader in (torch, fx.torch):
        ours, theirs = (harness.leaves(reader.load(saved[name])) for name in ("fx", "torch"))
        assert ours.keys() == theirs.keys()
        for key, value in theirs.items():
            np.testing.assert_allclose(ours[key], value, rtol=1e-7, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.filterwarnings("error:jit check")
def test_train_step_under_jit(name, monkeypatch):
    """One decorator on ``train_step``: same draws, same losses, up to the order of additions.

    Of two scripts some steps are checked against their eager runs besides.
    """
    monkeypatch.setenv("FX_CHECK", {"linear_regression": "2", "vae": "4"}.get(name, "0"))
    arguments = SCRIPTS[name][0]
    expected, _ = harness.run(name, "fx", arguments, monkeypatch, own_draws=True)
    got, _ = harness.run(name, "fx", arguments, monkeypatch, jit=True, own_draws=True)
    shapes = 2 if name == "lstm_tagger" else 1  # its batches are as long as their longest sentence
    assert got.pop("programs") == shapes  # nothing else that changes between steps compiles again
    expected, got = harness.numbers(expected), harness.numbers(got)
    same(got, expected, rtol=1e-8, atol=1e-9)
