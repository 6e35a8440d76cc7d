"""What a script may call arguments, which axes a scalar has, and what a wrong word is told."""

import itertools
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx.torch
from fx.torch._functions import _arguments, rows

REST = {  # what a function needs besides a tensor and an axis
    "kthvalue": {"k": 1}, "topk": {"k": 1}, "quantile": {"q": 0.5}, "nanquantile": {"q": 0.5},
    "index_select": {"index": [0]}, "gather": {"index": [0]}, "take_along_dim": {"indices": [0]},
    "narrow": {"start": 0, "length": 1}, "select": {"index": 0}, "chunk": {"chunks": 1},
    "split_with_sizes": {"split_sizes": [2]}, "unflatten": {"sizes": (2, 1)},
    "repeat_interleave": {"repeats": 2}, "index_fill": {"index": [0], "value": 1.0},
    "index_add": {"index": [0], "source": [1.0]}, "index_copy": {"index": [0], "source": [1.0]},
    "scatter": {"index": [0], "src": [1.0]}, "scatter_add": {"index": [0], "src": [1.0]},
    "scatter_reduce": {"index": [0], "src": [1.0], "reduce": "sum"},
    "index_reduce": {"index": [0], "source": [1.0], "reduce": "prod"},
}  # fmt: skip
# those that torch takes no such arguments of, or not of a line
PYTHONS = """
    cross renorm select_scatter slice_scatter split tensor_split unsafe_chunk unsafe_split
    unsafe_split_with_sizes
"""
OF_AXIS = [
    (name, {p.split("=")[0] for p in _arguments(signature)})
    for name, signature, _ in rows()
    if "dim" in {p.split("=")[0] for p in _arguments(signature)}
    and name not in ("cat", "concat", "concatenate", "stack")
]


def outcome(library, name, method, scalar, options):
    """Shapes and values, or None where the library refuses."""
    x = library.tensor(1.5) if scalar else library.tensor([1.5, 2.5])
    given = {
        word: library.tensor(v[0] if scalar else v)
        if isinstance(v, list) and word != "split_sizes"
        else v
        for word, v in options.items()
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = getattr(x, name)(**given) if method else getattr(library, name)(x, **given)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return None
    outs = out if isinstance(out, tuple | list) else (out,)
    return [(tuple(o.shape), o.numpy()) for o in outs]


@pytest.mark.parametrize("name", sorted(name for name, _ in OF_AXIS))
def test_axes_of_lines_and_scalars_under_every_word(name):
    """What torch takes is taken, and gives the same: dim or axis, keepdim or keepdims."""
    words = dict(OF_AXIS)[name]
    kept = ((), ("keepdim",), ("keepdims",)) if "keepdim" in words else ((),)
    compared = 0
    for method, word, axis, scalar, keep in itertools.product(
        (False, True), ("dim", "axis"), (0, -1), (False, True), kept
    ):
        options = {**REST.get(name, {}), word: axis, **dict.fromkeys(keep, True)}
        expected = outcome(torch, name, method, scalar, options)
        if expected is None:
            continue
        got = outcome(fx.torch, name, method, scalar, options)
        what = (name, method, options, scalar)
        assert got is not None and len(got) == len(expected), what
        for (shape, value), (wanted, other) in zip(got, expected):
            assert shape == wanted, what
            np.testing.assert_allclose(value, other, rtol=1e-6, err_msg=str(what))
        compared += 1
    assert compared or name in PYTHONS.split(), name


def test_gradients_of_scalars_along_their_axis():
    for f in (
        lambda t, x: x.cumsum(0), lambda t, x: x.sort(0)[0], lambda t, x: x.max(dim=-1).values,
        lambda t, x: t.softmax(x, 0) + x.log_softmax(-1), lambda t, x: x.sum(0, keepdim=True),
        lambda t, x: t.logsumexp(x, 0) * x.mean(-1), lambda t, x: x.topk(1).values.squeeze(),
        lambda t, x: t.nn.functional.softmax(x, dim=0), lambda t, x: x.transpose(0, -1) * 2,
    ):  # fmt: skip
        grads = []
        for library in (torch, fx.torch):
            x = library.tensor(1.5, requires_grad=True)
            (3 * f(library, x)).sum().backward()
            grads.append(x.grad.item())
        assert grads[0] == pytest.approx(grads[1], abs=1e-7)


def test_a_wrong_word_lists_the_right_ones():
    t = fx.torch
    x = t.ones(2, 3)
    for call, words in (
        (lambda: t.sum(x, dims=1), r"'dims'; did you mean 'dim'\? it takes input, dim, keepdim"),
        (lambda: t.softmax(x, 0, colour=1), "'colour'; it takes input, dim, dtype"),
        (lambda: t.sum(x, 1, axis=0), "got dim twice, as 'dim' and as 'axis'"),
        (lambda: t.cumsum(x), "cumsum.. misses 'dim'"),
        (lambda: t.nansum(x, axes=0), "did you mean 'axis'|it takes input, dim"),
    ):
        with pytest.raises(TypeError, match=words):
            call()
    assert t.add(x1=x, x2=x).tolist() == t.add(x, other=x).tolist()
    assert t.var_mean(x, axis=0)[0].shape == (3,) and t.nansum(a=x, axis=1).tolist() == [3, 3]


def test_the_same_swap_under_three_names():
    for name, words in (
        ("transpose", ("dim0", "dim1")), ("swapdims", ("dim0", "dim1")),
        ("swapaxes", ("axis0", "axis1")),
    ):  # fmt: skip
        x = fx.torch.ones(2, 3)
        assert getattr(x, name)(**dict(zip(words, (0, 1)))).shape == (3, 2)
        with pytest.raises(IndexError, match=f"^{name}: axis 5"):
            getattr(x, name)(0, 5)
