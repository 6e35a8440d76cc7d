"""The digits example in a small configuration: it runs, repeats, and says what is missing."""

import sys

import numpy as np
import pytest

import fx
from fx.examples import digits

for package in ("sklearn", "matplotlib", "tqdm"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def small():
    train, test = digits.load(0)
    cut = [
        fx.data.TensorDataset(*(t[:n] for t in d.tensors)) for d, n in ((train, 256), (test, 40))
    ]
    return digits.run(2, 0, *cut), cut


def test_both_styles_agree_to_rounding(small):
    result, _ = small
    assert len(result["functional"]) == len(result["stateful"]) == 2 * (256 // digits.BATCH)
    assert result["gap"] < 1e-5
    assert result["accuracy"] == result["stateful_accuracy"]
    assert result["functional"][-1] < result["functional"][0]


def test_gradient_norms_equal_the_loop(small):
    _, (_, test) = small
    fx.manual_seed(1)
    params = dict(digits.LeNet().state_dict())
    images, labels = (t[:5] for t in test.tensors)
    norms = digits.gradient_norms(params, images, labels)
    for i in range(5):
        gradient = fx.grad(digits.loss_fn)(params, images[i : i + 1], labels[i : i + 1])
        total = sum(float((g * g).sum()) for g in gradient.values())
        np.testing.assert_allclose(float(norms[i]), total**0.5, rtol=1e-4)


def test_the_most_surprising_come_first(small):
    result, _ = small
    longest = np.sort(result["norms"])[::-1][:5]
    np.testing.assert_array_equal(result["norms"][result["surprising"]], longest)


def test_the_program_trains_and_draws(tmp_path, capsys, monkeypatch, small):
    _, (train, test) = small
    monkeypatch.setattr(digits, "load", lambda seed: (train, test))
    out = tmp_path / "digits.png"
    first = digits.main(["--epochs", "1", "--out", str(out), "--seed", "3"])
    printed = capsys.readouterr().out
    assert "256 training and 40 test images" in printed and "test accuracy" in printed
    assert out.read_bytes().startswith(b"\x89PNG")
    assert digits.run(1, 3, train, test)["functional"] == first["functional"]


def test_loss_curves_that_differ_are_an_error(tmp_path, monkeypatch, small):
    result, (train, test) = small
    monkeypatch.setattr(digits, "load", lambda seed: (train, test))
    monkeypatch.setattr(digits, "run", lambda *args: {**result, "gap": float("nan")})
    with pytest.raises(SystemExit, match="the two loss curves differ by nan"):
        digits.main(["--out", str(tmp_path / "never.png")])


@pytest.mark.parametrize("package", ["sklearn", "matplotlib", "tqdm"])
def test_a_missing_package_is_named(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"pip install 'fxgrad\[examples\]'"):
        digits.main([])


def test_the_command_line_refuses_no_epochs(capsys):
    with pytest.raises(SystemExit):
        digits.main(["--epochs", "0"])
    assert "--epochs must be at least 1" in capsys.readouterr().err
