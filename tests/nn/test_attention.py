"""Attention against torch's: every option of the layer and of the functions, and transforms."""

import itertools

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check, close, twins

F, T = fx.nn.functional, torch.nn.functional
BOTH = ((fx, fx.tensor), (torch, torch.tensor))


# scaled_dot_product_attention ---------------------------------------------------------------------

MASK = np.array([[True, False, True, True], [False] * 4, [True] * 4])
FLOATS = np.where(MASK, np.random.default_rng(0).normal(size=MASK.shape), -np.inf)


@pytest.mark.parametrize("mask", [None, MASK, FLOATS, MASK[:, None], FLOATS[None]], ids=str)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_masks(mask, scale):
    q, k, v = arrays((2, 3, 5), (2, 4, 5), (2, 4, 6))
    if mask is not None and mask.ndim == 3 and mask.shape[1] == 1:
        mask = mask[:2]
    ours = None if mask is None else fx.tensor(mask)
    theirs = None if mask is None else torch.tensor(mask)
    check(
        lambda *a: F.scaled_dot_product_attention(*a, ours, scale=scale),
        lambda *a: T.scaled_dot_product_attention(*a, theirs, scale=scale),
        q, k, v,
    )  # fmt: skip


@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3)])
def test_causal(sizes):
    targets, sources = sizes
    options = {"is_causal": True, "enable_gqa": True}
    check(
        lambda *a: F.scaled_dot_product_attention(*a, **options),
        lambda *a: T.scaled_dot_product_attention(*a, **options),
        *arrays((2, 4, targets, 3), (2, 2, sources, 3), (2, 2, sources, 3)),
    )


def test_attention_dropout():
    x = fx.ones((64, 8, 4))
    y = F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
    assert abs(float(y.mean()) - 1) < 0.1
    assert float(y.std()) > 0.1
    with pytest.raises(ValueError, match="dropout_p"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=2.0)


# MultiheadAttention -------------------------------------------------------------------------------

LAYERS = [
    {},
    {"bias": False},
    {"batch_first": True},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 3, "vdim": 5},
    {"kdim": 3, "vdim": 5, "bias": False, "add_bias_kv": True, "add_zero_attn": True},
]
TARGETS, SOURCES, BATCH = 3, 4, 2


def masks(kind, batch=BATCH, heads=2):
    """The two masks of a call."""
    rng = np.random.default_rng(2)
    mask = rng.uniform(size=(TARGETS, SOURCES)) > 0.7
    mask[:, 0] = False
    padding = np.zeros((batch, SOURCES), bool)
    padding[0, -1] = True
    floats = np.where(mask, -np.inf, rng.normal(size=mask.shape))
    return {
        "none": {},
        "mask": {"attn_mask": mask},
        "floats": {"attn_mask": floats},
        "heads": {"attn_mask": np.stack([mask] * (batch * heads))},
        "padding": {"key_padding_mask": padding},
        "both": {"attn_mask": mask, "key_padding_mask": padding},
    }[kind]


def run(layer, make, inputs, given, **options):
    """Output, weights and gradients."""
    leaves = [make(a, requires_grad=True) for a in inputs]
    y, weights = layer(*leaves, **{k: make(m) for k, m in given.items()}, **options)
    total = (y**2).sum() + (0 if weights is None else (weights**2).sum())
    total.backward()
    found = [y, *[x.grad for x in leaves], *[p.grad for p in layer.parameters()]]
    return found if weights is None else [*found, weights]


def compare(options, given, *inputs, **more):
    """Both layers on the same arguments."""
    ours, theirs = twins(lambda nn: nn.MultiheadAttention(4, 2, **options))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    got = run(ours, fx.tensor, inputs, given, **more)
    expected = run(theirs, torch.tensor, inputs, given, **more)
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        assert (a is None) == (b is None), i
        if a is not None:
            close(a, b, str(i))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["none", "mask", "floats", "heads", "padding", "both"])
@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_layers(options, kind, need_weights):
    inputs = arrays(
        (TARGETS, BATCH, 4),
        (SOURCES, BATCH, options.get("kdim", 4)),
        (SOURCES, BATCH, options.get("vdim", 4)),
    )
    if options.get("batch_first"):
        inputs = [a.swapaxes(0, 1) for a in inputs]
    compare(options, masks(kind), *inputs, need_weights=need_weights)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", ["none", "mask", "padding"])
def test_one_sequence(kind, batch_first, average):
    given = masks(kind, batch=1)
    if "key_padding_mask" in given:
        given = {"key_padding_mask": given["key_padding_mask"][0]}
    inputs = arrays((TARGETS, 4), (SOURCES, 4), (SOURCES, 4))
    compare({"batch_first": batch_first}, given, *inputs, average_attn_weights=average)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_over_itself(need_weights, batch_first):
    ours, theirs = twins(lambda nn: nn.MultiheadAttention(4, 2, batch_first=batch_first))
    (x,) = arrays((3, 3, 4))
    for nn, layer, make in ((fx.nn, ours, fx.tensor), (torch.nn, theirs, torch.tensor)):
        mask = nn.Transformer.generate_square_subsequent_mask(3)
        more = {"attn_mask": mask.double(), "is_causal": True, "need_weights": need_weights}
        leaf = make(x, requires_grad=True)
        y, weights = layer(leaf, leaf, leaf, **more)
        (y**2).sum().backward()
        both = [y, leaf.grad] + ([weights] if need_weights else [])
        if nn is fx.nn:
            got = both
    for a, b in zip(got, both, strict=True):
        close(a, b)


def test_static_keys_and_values():
    q, k, v, w, b = arrays((3, 2, 4), (4, 5, 2), (4, 5, 2), (12, 4), (12,))
    outs = []
    for nn, make in ((F, fx.tensor), (T, torch.tensor)):
        args = [make(a) for a in (q, q, q)]
        y, weights = nn.multi_head_attention_forward(
            *args, 4, 2, make(w), make(b), None, None, False, 0.0, make(w[:4]), None,
            static_k=make(k), static_v=make(v),
        )  # fmt: skip
        outs.append((y, weights))
    for a, c in zip(*outs):
        close(a, c)


def test_merged_masks():
    ours, theirs = twins(lambda nn: nn.MultiheadAttention(4, 2))
    rng = np.random.default_rng(0)
    x, mask, padding = rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 3)), rng.normal(size=(2, 3))
    for m, p in itertools.product((None, mask, np.stack([mask] * 4)), (None, padding)):
        got = ours.merge_masks(*[None if a is None else fx.tensor(a) for a in (m, p)], fx.tensor(x))
        expected = theirs.merge_masks(
            *[None if a is None else torch.tensor(a) for a in (m, p)], torch.tensor(x)
        )
        assert got[1] == expected[1]
        assert (got[0] is None) == (expected[0] is None)
        if got[0] is not None:
            close(got[0], expected[0])


def test_dropout_of_weights():
    layer = fx.nn.MultiheadAttention(8, 2, dropout=0.5)
    x = fx.ones((6, 2, 8))
    assert bool((layer(x, x, x)[1] == 0).any())
    assert not bool((layer.eval()(x, x, x)[1] == 0).any())


# transforms ---------------------------------------------------------------------------------------


def test_under_transforms():
    layer = fx.nn.MultiheadAttention(4, 2, dtype="float64")
    mask = fx.nn.Transformer.generate_square_subsequent_mask(3, dtype="float64")
    xs = fx.tensor(arrays((5, 3, 2, 4))[0])
    f = lambda x: layer(x, x, x, attn_mask=mask, need_weights=False)[0]
    with fx.no_grad():
        close(fx.jit(f)(xs[0]), f(xs[0]))
        close(fx.vmap(f)(xs), fx.stack([f(x) for x in xs]))
        gradient = fx.grad(lambda x: f(x).sum())
        close(fx.jit(gradient)(xs[0]), gradient(xs[0]))
        close(fx.vmap(gradient)(xs), fx.stack([gradient(x) for x in xs]))


# bad input ----------------------------------------------------------------------------------------

X = fx.ones((3, 2, 4))
REFUSED = [
    (lambda m: m(X, X, fx.ones((4, 2, 4))), ShapeError, "query"),
    (lambda m: m(fx.ones((3, 2, 6)), X, X), ShapeError, "embed_dim=4"),
    (lambda m: m(X, X, X, attn_mask=fx.ones((2, 2))), ShapeError, "attn_mask must be"),
    (lambda m: m(X, X, X, attn_mask=fx.ones((3, 3), dtype="int64")), DTypeError, "bool"),
    (lambda m: m(X, X, X, fx.ones((3, 3))), ShapeError, "key_padding_mask must be"),
    (lambda m: m(X, X, X, is_causal=True), RuntimeError, "attn_mask"),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call(fx.nn.MultiheadAttention(4, 2))


def test_refused_options():
    for options in ((4, 3), (0, 1), (4, -1)):
        with pytest.raises(ValueError, match="divisible"):
            fx.nn.MultiheadAttention(*options)
    with pytest.warns(UserWarning, match="use one for both"):
        fx.nn.MultiheadAttention(4, 2)(
            X, X, X, fx.zeros((2, 3), dtype="bool"), attn_mask=fx.zeros((3, 3))
        )
