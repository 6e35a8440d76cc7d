"""Transformer layers and stacks against torch's, over their options, and under transforms."""

import warnings

import numpy as np
import pytest

import fx
from fx.errors import ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check_layer, close, twins

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

OPTIONS = [
    {},
    {"norm_first": True},
    {"batch_first": True},
    {"bias": False},
    {"activation": "gelu"},
    {"activation": "gelu", "norm_first": True, "batch_first": True, "layer_norm_eps": 1e-3},
]
SHAPES = {"src": (5, 2, 4), "tgt": (3, 2, 4)}


def inputs(options, *names):
    """Sequences with the batch where the layer has it."""
    found = arrays(*[SHAPES[name] for name in names])
    return [a.swapaxes(0, 1) for a in found] if options.get("batch_first") else found


def sequence_masks(length, sources=None, batch=2):
    """A mask and a padding mask that leave something to everybody."""
    mask = np.random.default_rng(1).uniform(size=(length, sources or length)) > 0.6
    mask[:, 0] = False
    padding = np.zeros((batch, sources or length), bool)
    padding[1, -1] = True
    return mask, padding


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_encoder_layer(options, masked):
    given = sequence_masks(5) if masked else ()

    def call(layer, x):
        make = torch.tensor if isinstance(x, torch.Tensor) else fx.tensor
        return layer(x, *[make(m) for m in given])

    make = lambda nn: nn.TransformerEncoderLayer(4, 2, 8, 0.0, **options)
    check_layer(make, *inputs(options, "src"), call=call)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_decoder_layer(options, masked):
    own, cross = sequence_masks(3), sequence_masks(3, 5)
    given = (own[0], cross[0], own[1], cross[1]) if masked else ()

    def call(layer, tgt, memory):
        make = torch.tensor if isinstance(tgt, torch.Tensor) else fx.tensor
        return layer(tgt, memory, *[make(m) for m in given])

    make = lambda nn: nn.TransformerDecoderLayer(4, 2, 8, 0.0, **options)
    check_layer(make, *inputs(options, "tgt", "src"), call=call)


def test_activation_as_function_and_module():
    for name, activation in (("tanh", None), ("ReLU", True)):

        def make(nn, name=name, activation=activation):
            function = getattr(nn, name)() if activation else nn.Tanh().forward
            return nn.TransformerEncoderLayer(4, 2, 8, 0.0, function)

        check_layer(make, *inputs({}, "src"))
    with pytest.raises(RuntimeError, match="relu/gelu, not swish"):
        fx.nn.TransformerEncoderLayer(4, 2, activation="swish")


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_encoder(masked, normed):
    mask, padding = sequence_masks(5)

    def make(nn):
        layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0)
        return nn.TransformerEncoder(layer, 2, nn.LayerNorm(4) if normed else None)

    def call(layer, x):
        to = torch.tensor if isinstance(x, torch.Tensor) else fx.tensor
        return layer(x, to(mask), to(padding)) if masked else layer(x)

    check_layer(make, *inputs({}, "src"), call=call)


@pytest.mark.parametrize("causal", [False, True])
def test_decoder(causal):
    def make(nn):
        return nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 8, 0.0), 2)

    def call(layer, tgt, memory):
        nn = torch.nn if isinstance(tgt, torch.Tensor) else fx.nn
        mask = nn.Transformer.generate_square_subsequent_mask(3).double()
        return layer(tgt, memory, mask, tgt_is_causal=causal)

    check_layer(make, *inputs({}, "tgt", "src"), call=call)


@pytest.mark.parametrize("options", OPTIONS[:3], ids=str)
def test_transformer(options):
    own, other, cross = sequence_masks(3), sequence_masks(5), sequence_masks(3, 5)

    def call(model, src, tgt):
        to = torch.tensor if isinstance(src, torch.Tensor) else fx.tensor
        given = (other[0], own[0], cross[0], other[1], own[1], cross[1])
        return model(src, tgt, *[to(m) for m in given])

    make = lambda nn: nn.Transformer(4, 2, 1, 2, 8, 0.0, **options)
    check_layer(make, *inputs(options, "src", "tgt"), call=call)


def test_one_sequence():
    check_layer(lambda nn: nn.Transformer(4, 2, 1, 1, 8, 0.0), *arrays((5, 4), (3, 4)))


def test_evaluation():
    ours, theirs = twins(lambda nn: nn.Transformer(4, 2, 1, 1, 8, batch_first=True))
    src, tgt = arrays((2, 5, 4), (2, 3, 4))
    with fx.no_grad(), torch.no_grad():
        got = ours.eval()(fx.tensor(src), fx.tensor(tgt))
        close(got, theirs.eval()(torch.tensor(src), torch.tensor(tgt)))


def test_layers_are_copies():
    layer = fx.nn.TransformerEncoderLayer(4, 2, 8)
    stack = fx.nn.TransformerEncoder(layer, 3)
    assert len({id(p) for p in stack.parameters()}) == len(list(stack.parameters()))
    close(stack.layers[0].linear1.weight, layer.linear1.weight)


def test_custom_parts():
    class Twice(fx.nn.Module):
        def forward(self, x, *args, **kwargs):
            return x * 2

    model = fx.nn.Transformer(4, 2, custom_encoder=Twice(), custom_decoder=Twice())
    x = fx.ones((3, 1, 4))
    close(model(x, x), x * 2)


def test_causal_mask():
    for size, dtype in ((1, None), (4, "float64")):
        ours = fx.nn.Transformer.generate_square_subsequent_mask(size, dtype=dtype)
        theirs = torch.nn.Transformer.generate_square_subsequent_mask(
            size, dtype=dtype and getattr(torch, dtype)
        )
        close(ours, theirs)


def test_training_step_under_jit():
    fx.manual_seed(0)
    model = fx.nn.Transformer(4, 2, 1, 1, 8, dtype="float64")
    src, tgt = (fx.tensor(a) for a in arrays((5, 2, 4), (3, 2, 4)))

    def step():
        model.zero_grad()
        loss = (model(src, tgt) ** 2).mean()
        loss.backward()
        return loss

    fx.manual_seed(1)
    expected = step(), [p.grad for p in model.parameters()]
    fx.manual_seed(1)
    got = fx.jit(step)(), [p.grad for p in model.parameters()]
    close(got[0], expected[0])
    for a, b in zip(got[1], expected[1]):
        close(a, b)


def test_lanes():
    layer = fx.nn.TransformerEncoderLayer(4, 2, 8, dtype="float64").eval()
    xs = fx.tensor(arrays((3, 5, 2, 4))[0])
    with fx.no_grad():
        close(fx.vmap(layer)(xs), fx.stack([layer(x) for x in xs]))


def test_refused():
    model = fx.nn.Transformer(4, 2, 1, 1, 8)
    with pytest.raises(ShapeError, match="equal batch sizes and 4 features"):
        model(fx.ones((5, 2, 4)), fx.ones((3, 1, 4)))
    with pytest.raises(ShapeError, match="equal batch sizes and 4 features"):
        model(fx.ones((5, 2, 6)), fx.ones((3, 2, 6)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.nn.TransformerEncoder(fx.nn.TransformerEncoderLayer(4, 1, 8), 1)
