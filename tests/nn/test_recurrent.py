"""RNN, LSTM, GRU and their cells against torch's, over every option; and under transforms."""

import itertools
import warnings

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, close, twins

KINDS = ["RNN", "GRU", "LSTM"]
OPTIONS = {
    "plain": {},
    "deep": {"num_layers": 3},
    "no bias": {"bias": False, "num_layers": 2},
    "batch first": {"batch_first": True},
    "both ways": {"bidirectional": True},
    "all": {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
}
CASES = [(kind, dict(o)) for kind in KINDS for o in OPTIONS.values()]
CASES += [("RNN", {"nonlinearity": "relu"}), ("RNN", {"nonlinearity": "relu", "num_layers": 2})]
CASES += [
    ("LSTM", {"proj_size": 2}),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True, "bias": False}),
]


def tensors(tree, make):
    """A pytree of arrays as tensors that require grad."""
    if tree is None:
        return None
    if isinstance(tree, tuple):
        return tuple(tensors(t, make) for t in tree)
    return make(tree, requires_grad=True)


def leaves(tree):
    """Results or arguments as a flat list."""
    return [x for t in tree for x in leaves(t)] if isinstance(tree, tuple) else [tree]


def compare(ours, theirs, *inputs):
    """Results of both layers, and all gradients along random cotangents."""
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    xs, ts = tensors(inputs, fx.tensor), tensors(inputs, torch.tensor)
    got, expected = leaves(ours(*xs)), leaves(theirs(*ts))
    total, their_total = 0, 0
    for i, (y, z) in enumerate(zip(got, expected, strict=True)):
        close(y, z, f"result {i}")
        (ct,) = arrays(tuple(z.shape), seed=i, dtype=str(y.dtype))
        total, their_total = (
            (y * fx.tensor(ct)).sum() + total,
            (z * torch.tensor(ct)).sum() + (their_total),
        )
    total.backward()
    their_total.backward()
    for i, (x, t) in enumerate(zip(leaves(xs), leaves(ts))):
        if x is not None:
            close(x.grad, t.grad, f"gradient of argument {i}")
    for (name, p), q in zip(ours.named_parameters(), theirs.parameters()):
        close(p.grad, q.grad, f"gradient of {name}")


def states(kind, options, batch, hidden=4):
    """States at the start for a layer."""
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    lead = (count,) if batch is None else (count, batch)
    out = options.get("proj_size") or hidden
    h, c = arrays((*lead, out), (*lead, hidden), seed=5)
    return (h, c) if kind == "LSTM" else h


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_layers(kind, options, given):
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, **options))
    (x,) = arrays((2, 5, 3) if options.get("batch_first") else (5, 2, 3))
    compare(ours, theirs, x, *([states(kind, options, 2)] if given else []))


@pytest.mark.parametrize("kind", KINDS)
def test_one_sequence(kind):
    options = {"bidirectional": True, "batch_first": True}
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, **options))
    (x,) = arrays((5, 3))
    compare(ours, theirs, x)
    ours.zero_grad()
    theirs.zero_grad()
    compare(ours, theirs, x, states(kind, options, None))


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_that_are_compiled(kind):
    ours, theirs = twins(lambda nn: getattr(nn, kind)(8, 32), "float32")
    for length in (4, 7):
        ours.zero_grad()
        theirs.zero_grad()
        compare(ours, theirs, *arrays((length, 16, 8), dtype="float32"))
    x = fx.tensor(arrays((4, 16, 8), dtype="float32")[0])
    assert all(bool((ours(x)[0] == ours(x)[0]).all()) for _ in range(2))


CELLS = [("RNNCell", {}), ("RNNCell", {"nonlinearity": "relu"}), ("LSTMCell", {}), ("GRUCell", {})]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "options"), CELLS, ids=str)
def test_cells(kind, options, bias, lead, given):
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, bias=bias, **options))
    x, h, c = arrays((*lead, 3), (*lead, 4), (*lead, 4))
    hx = ((h, c) if kind == "LSTMCell" else h) if given else None
    compare(ours, theirs, x, hx)


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_weights(kind):
    options = {"num_layers": 2, "bidirectional": True}
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, **options))
    ours.flatten_parameters()
    assert ours._flat_weights_names == theirs._flat_weights_names
    got = [[tuple(w.shape) for w in ws] for ws in ours.all_weights]
    assert got == [[tuple(w.shape) for w in ws] for ws in theirs.all_weights]
    assert all(a is b for a, b in zip(ours._flat_weights, ours.parameters()))


def test_dropout_between_layers():
    layer = fx.nn.LSTM(3, 64, num_layers=2, dropout=0.5)
    x = fx.ones((4, 2, 3))
    assert not bool((layer(x)[0] == layer(x)[0]).all())
    plain = fx.nn.LSTM(3, 64, num_layers=2)
    plain.load_state_dict(layer.state_dict())
    close(layer.eval()(x)[0], plain(x)[0])
    fx.manual_seed(3)
    first = layer.train()(x)[0]
    fx.manual_seed(3)
    close(fx.jit(layer)(x)[0], first)
    with pytest.warns(UserWarning, match="num_layers=1 has none"):
        fx.nn.GRU(3, 4, dropout=0.5)


# transforms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_under_jit(kind):
    layer = getattr(fx.nn, kind)(3, 4, num_layers=2, bidirectional=True, dtype="float64")
    x = fx.tensor(arrays((5, 2, 3))[0])

    def loss(x):
        layer.zero_grad()
        out = (layer(x)[0] ** 2).sum()
        out.backward()
        return out

    expected = loss(x), [p.grad for p in layer.parameters()]
    got = fx.jit(loss)(x), [p.grad for p in layer.parameters()]
    close(got[0], expected[0])
    for a, b in zip(got[1], expected[1]):
        close(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_under_vmap_and_grad(kind):
    layer = getattr(fx.nn, kind)(3, 4, bidirectional=True, dtype="float64")
    xs = fx.tensor(arrays((6, 5, 2, 3))[0])
    with fx.no_grad():
        close(fx.vmap(lambda x: layer(x)[0])(xs), fx.stack([layer(x)[0] for x in xs]))
        loss = lambda m, x: (m(x)[0] ** 2).sum()
        rows = fx.vmap(fx.grad(loss), (None, 0))(layer, xs)
        loop = [fx.grad(loss)(layer, x) for x in xs]
    for name, p in rows.named_parameters():
        expected = fx.stack([dict(g.named_parameters())[name].data for g in loop])
        close(p.data, expected, name)


@pytest.mark.parametrize("kind", KINDS)
def test_second_order_and_forward_mode(kind):
    layer = getattr(fx.nn, kind)(2, 3, dtype="float64")
    layer.requires_grad_(False)
    x, t, s = (fx.tensor(a) for a in arrays((3, 1, 2), (3, 1, 2), (3, 1, 2)))
    loss = lambda x: fx.sum(layer(x)[0] ** 3)
    step = 1e-6
    differences = (fx.grad(loss)(x + step * t) - fx.grad(loss)(x - step * t)) / (2 * step)
    hessian_t = fx.grad(lambda x: fx.sum(fx.grad(loss)(x) * t))(x)
    np.testing.assert_allclose(hessian_t.numpy(), differences.numpy(), rtol=1e-6, atol=1e-7)
    _, pushed = fx.jvp(lambda x: fx.grad(loss)(x), (x,), (t,))
    np.testing.assert_allclose(pushed.numpy(), hessian_t.numpy(), rtol=1e-9, atol=1e-10)
    _, slope = fx.jvp(loss, (x,), (s,))
    np.testing.assert_allclose(slope.numpy(), fx.sum(fx.grad(loss)(x) * s).numpy(), rtol=1e-9)


def test_length_does_not_compile_again():
    from fx.nn.functional import _steps

    layer = fx.nn.LSTM(8, 32)
    layer(fx.ones((3, 16, 8)))
    count = len(_steps.bodies)
    for length in range(1, 8):
        layer(fx.ones((length, 16, 8)))
    assert len(_steps.bodies) == count


# bad input ----------------------------------------------------------------------------------------

REFUSED = [
    (lambda nn: nn.LSTM(3, 4), lambda m: m(fx.ones((5, 2, 7))), ShapeError, "input_size=3"),
    (lambda nn: nn.LSTM(3, 4), lambda m: m(fx.ones((1, 5, 2, 3))), ShapeError, "LSTM takes"),
    (lambda nn: nn.GRU(3, 4), lambda m: m(fx.ones((0, 2, 3))), ShapeError, "no time step"),
    (
        lambda nn: nn.GRU(3, 4),
        lambda m: m(fx.ones((5, 2, 3)), fx.ones((1, 3, 4))),
        ShapeError,
        r"hx must have shape \(1, 2, 4\)",
    ),
    (
        lambda nn: nn.RNN(3, 4),
        lambda m: m(fx.ones((5, 2, 3), dtype="float64")),
        DTypeError,
        r"x.to\(fx.float32\)",
    ),
    (
        lambda nn: nn.LSTM(3, 4),
        lambda m: m(fx.ones((5, 2, 3)), fx.ones((1, 2, 4))),
        TypeError,
        r"pair \(h, c\)",
    ),
    (lambda nn: nn.GRUCell(3, 4), lambda m: m(fx.ones((2, 5))), ShapeError, "GRUCell takes"),
    (
        lambda nn: nn.GRUCell(3, 4),
        lambda m: m(fx.ones((2, 3)), fx.ones((2, 5))),
        ShapeError,
        "state must have shape",
    ),
]


@pytest.mark.parametrize(("make", "call", "error", "match"), REFUSED)
def test_refused_inputs(make, call, error, match):
    with pytest.raises(error, match=match):
        call(make(fx.nn))


BAD_OPTIONS = [
    {"dropout": 2.0}, {"dropout": True}, {"bias": 1}, {"batch_first": "no"}, {"num_layers": 0},
    {"proj_size": 4}, {"proj_size": -1}, {"hidden_size": 0}, {"input_size": 2.0},
]  # fmt: skip


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=str)
def test_refused_options(options):
    given = {"input_size": 3, "hidden_size": 4, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, ValueError)) as expected:
            torch.nn.LSTM(**given)
        with pytest.raises(type(expected.value)):
            fx.nn.LSTM(**given)


def test_projection_of_other_kinds():
    for kind in (fx.nn.GRU, fx.nn.RNN):
        with pytest.raises(ValueError, match="only supported for LSTM"):
            kind(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        fx.nn.RNN(3, 4, nonlinearity="gelu")


def test_all_pairs_of_options_keep_torch_keys():
    for layers, bias, both, projected in itertools.product((1, 2), (True, False), (0, 1), (0, 2)):
        options = {"num_layers": layers, "bias": bias, "bidirectional": bool(both)}
        options["proj_size"] = projected
        ours, theirs = fx.nn.LSTM(3, 4, **options), torch.nn.LSTM(3, 4, **options)
        assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
            k: tuple(v.shape) for k, v in theirs.state_dict().items()
        }
