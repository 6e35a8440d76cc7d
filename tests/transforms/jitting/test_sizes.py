"""New sizes of arguments: which are served without staging, and that none is served wrongly."""

import json
import math
import random
import warnings

import numpy as np
import pytest

import fx
import fx.torch as torch
from fx import nn
from fx.errors import ShapeError
from fx.nn import functional as F
from tests.thorough import THOROUGH

_rng = np.random.default_rng(0)
W = fx.asarray(_rng.normal(size=(6, 6)).astype(np.float32))
TABLE = fx.asarray(_rng.normal(size=(300, 6)).astype(np.float32))
HEADS = 2
NAMES = ["none", "one", "two", "three", "four", "five", *["many"] * 90]


def _x(n):
    return fx.asarray(np.random.default_rng(n).normal(size=(n, 6)).astype(np.float32))


class Block(nn.Module):
    """A block of a transformer as it is written by hand, over (batch, time, features)."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(6), nn.Linear(6, 18), nn.Linear(6, 6)
        self.mlp = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        seen = fx.tril(fx.ones(300, 300))[:t, :t]
        scores = scores.masked_fill(seen == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)
        x = x + self.out(y)
        return x + self.mlp(x)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 6), nn.Embedding(300, 6)
        self.block, self.head = Block(), nn.Linear(6, 11)

    def forward(self, tokens):
        _, t = tokens.shape
        assert t <= 300, f"{t} tokens"
        x = self.words(tokens) + self.places(fx.arange(t))
        return self.head(self.block(x))[:, -1]


fx.manual_seed(0)
_mlp = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3), nn.Softmax(dim=-1))
_block, _gpt = Block(), Gpt()
_convolutions = nn.Sequential(
    nn.Conv1d(1, 3, 3, padding=1), nn.BatchNorm1d(3), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten()
).eval()
_many = nn.MultiheadAttention(6, 2, batch_first=True)
_encoder = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0, batch_first=True)
SHORT = TABLE[:20]


def _tokens(x):
    return (fx.abs(x[:, 0] * 7).astype(fx.int64) % 11)[None]


def _classes(x):
    return fx.abs(x[:, 0] * 7).astype(fx.int64) % 3


# what makes the same of all sizes: no staging from the fifth on
SERVED = {
    "scaled": lambda x: fx.exp(x) * 2,
    "mlp": lambda x: _mlp(x),
    "loss": lambda x: ((_mlp(x) - 1) ** 2).mean(),
    "product": lambda x: x @ W,
    "its own product": lambda x: fx.softmax(x @ x.T, axis=-1) @ x,
    "norm": lambda x: F.layer_norm(x, (6,)),
    "moments": lambda x: (x - x.mean(0)) / fx.std(x, axis=0),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "block": lambda x: _block(x[None]),
    "gpt": lambda x: _gpt(_tokens(x)),
    "causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "heads of fx": lambda x: _many(x[None], x[None], x[None])[0],
    "encoder": lambda x: _encoder(x[None]),
    "cross entropy": lambda x: F.cross_entropy(_mlp(x), _classes(x)),
    "joined": lambda x: fx.concat([x, x * 2]) * fx.stack([x, x]).sum(),
    "largest of each": lambda x: fx.max(x, axis=0) - fx.logsumexp(x, axis=0),
    "divided": lambda x: x / x.shape[0],
    "sum by its size": lambda x: x.sum(0) / x.shape[0] ** 0.5,
    "heads": lambda x: x.reshape(x.shape[0], HEADS, 3).sum(1),
    "flat": lambda x: x.reshape(x.shape[0] * 6) * 2,
    "one that is left": lambda x: x.reshape(-1, 3).sum(1),
    "last": lambda x: x[-1] * 2,
    "gaps": lambda x: x[1:] - x[:-1],
    "places": lambda x: TABLE[: x.shape[0]] + x,
    "counted": lambda x: x * fx.arange(x.shape[0])[:, None],
    "zeros": lambda x: fx.zeros((x.shape[0], 6)) + x,
    "asserted": lambda x: x * 2 if x.shape[0] < 1000 else x,
    "told": lambda x: (x * 2, x.shape[0], x.shape),
    "gradient": lambda x: fx.grad(lambda v: (_mlp(v) ** 2).sum())(x),
    "gradient of a mean": lambda x: fx.grad(lambda v: (_mlp(v) ** 2).mean())(x),
    "gradient of a loss": lambda x: fx.grad(lambda v: F.mse_loss(_mlp(v), x[:, :3]))(x),
    "variance": lambda x: x.var(0, correction=4),
    "einsum": lambda x: fx.einsum("ij,kj->ik", x, x) @ fx.einsum("ij,jk->ik", x, W),
    "scanned": lambda x: fx.scan(lambda c, r: (c * 0.5 + r, c @ W), fx.zeros(6), x),
    "convolutions": lambda x: _convolutions(x[:, None]),
}


def _loop(x):
    total = x[0] * 0
    for i in range(x.shape[0]):
        total = total + x[i] * i
    return total


def _stored(x):
    held = {"n": 0}
    held["n"] = x.shape[0]
    return x * held["n"]


def _handled(x):
    try:
        return x + TABLE[:9]
    except ValueError:
        return x * 2


def _checked(x):
    if x.shape[0] % 4 == 3:
        raise RuntimeError(f"{x.shape[0]} rows")
    return x * 2


class _Typed:
    """Asks for the type of a size where only watching sees it."""

    def __call__(self, x):
        return x * (2 if type(x.shape[0]) is int else 3) * type(x.shape[0])(7)


_typed = {"held": _Typed()}


def _warned(x):
    if x.shape[0] > 20:
        warnings.warn("long", stacklevel=1)
    return x * 2


# where Python, or fx, decides by a size, or an error depends on it: never a wrong number
DECIDED = {
    "branch": lambda x: x * 2 if x.shape[0] > 12 else x * 3,
    "branch far away": lambda x: x * 2 if x.shape[0] < 60 else x * 3,
    "equal": lambda x: x * 2 if x.shape[0] == 33 else x * 3,
    "range": _loop,
    "len": lambda x: x * len(x),
    "least": lambda x: x * min(x.shape[0], 9),
    "most": lambda x: x * max(x.shape[0], 30),
    "remainder": lambda x: x * (x.shape[0] % 5),
    "blocks": lambda x: x * -(-x.shape[0] // 8),
    "zeros of a remainder": lambda x: fx.zeros(x.shape[0] % 8 + 1) + x[0, 0],
    "zeros of what is left": lambda x: fx.zeros(max(12 - x.shape[0], 0) + 2) + x[0, 0],
    "counted down": lambda x: fx.arange(x.shape[0], 12) + x[0, 0],
    "half": lambda x: x[: x.shape[0] // 2],
    "two halves": lambda x: x[: x.shape[0] // 2].sum() - x[x.shape[0] // 2 :].sum(),
    "root": lambda x: x / math.sqrt(x.shape[0]),
    "one by": lambda x: x * (1 / x.shape[0]),
    "a power": lambda x: x * 0.5 ** x.shape[0],
    "a float": lambda x: x * (2.5 * x.shape[0]),
    "int of a float": lambda x: x * int(x.shape[0] * 0.3),
    "bits": lambda x: x * x.shape[0].bit_length(),
    "table": lambda x: x * [1, 2, 3, 4][x.shape[0] % 4],
    "names": lambda x: x * len(NAMES[x.shape[0]]),
    "text": lambda x: x * len(f"{x.shape[0]}"),
    "text of the shape": lambda x: x * len(str(x.shape)),
    "key": lambda x: x * {3: 1.0, 33: 7.0}.get(x.shape[0], 2.0),
    "shapes alike": lambda x: x * (2 if x.shape == (33, 6) else 3),
    "in": lambda x: x * (2 if x.shape[0] in (9, 17, 33) else 3),
    "bool": lambda x: x * bool(x.shape[0] - 9),
    "size": lambda x: x * min(x.size, 60),
    "size of an axis": lambda x: x * min(x.size(0), 9),
    "numel": lambda x: x * (x.numel() % 11),
    "first six": lambda x: x[:6].sum(0),
    "last six": lambda x: x[-6:].sum(0),
    "but six": lambda x: (x[6:].sum(0), fx.prod(x[6:], axis=0)),
    "last but six": lambda x: x[6:][-1] * 2,
    "between": lambda x: x[4:-4].sum(0),
    "dead between": lambda x: x * x[6:-6].shape[0],
    "row seven": lambda x: x[7],
    "a row that nobody needs": lambda x: (x[7], x * 2)[1],
    "each seventh": lambda x: x * x[::7].shape[0],
    "first two of each seventh": lambda x: x[::7][:2].sum(0),
    "even": lambda x: x.reshape(-1, 4).sum(1),
    "an even one that nobody needs": lambda x: (x.reshape(-1, 4), x * 2)[1],
    "even and back": lambda x: x.reshape(-1, 4).reshape(-1),
    "an error": _checked,
    "handled": _handled,
    "warned": _warned,
    "added": lambda x: x + TABLE[:9],
    "rows by their numbers": lambda x: SHORT[fx.arange(x.shape[0])] + x,
    "rows of a table that ends": lambda x: SHORT[: x.shape[0]] + x,
    "counted by threes": lambda x: fx.arange(0, x.shape[0], 3) + x[0, 0],
    "counted by its size": lambda x: fx.arange(0, 100, x.shape[0]) + x[0, 0],
    "cut at a third": lambda x: fx.tensor_split(x, [x.shape[0] // 3, 7])[1].sum(0),
    "split by its size": lambda x: len(fx.split(TABLE[:50], x.shape[0])) + x,
    "sections": lambda x: fx.split(TABLE[:60], [x.shape[0], 60 - x.shape[0]])[1].sum(0) + x,
    "rolled by its size": lambda x: fx.roll(TABLE, x.shape[0], axis=0)[:3],
    "largest of a table": lambda x: fx.topk(TABLE, x.shape[0], axis=0)[0].sum(0),
    "tiled": lambda x: fx.tile(x[0], (x.shape[0] % 3 + 1,)),
    "one by one": lambda x: fx.repeat(TABLE[:3], x.shape[0], axis=0).sum(0),
    "place in a shape": lambda x: fx.unravel_index(fx.tensor(17), (4, x.shape[0]))[0] + x,
    "axis": lambda x: fx.sum(TABLE.reshape(10, 5, 36), axis=x.shape[0] % 3),
    "broadcast": lambda x: x[:1] + x,
    "squeezed": lambda x: fx.squeeze(x[3:]),
    "split": lambda x: fx.split(x, 4)[-1],
    "chunks": lambda x: fx.concat([c.sum(0) for c in fx.chunk(x, 3)]),
    "each": lambda x: sum(r * i for i, r in enumerate(x)),
    "stacked": lambda x: fx.stack([x[i] for i in range(min(x.shape[0], 5))]),
    "stored": _stored,
    "repeated": lambda x: fx.repeat(x, 2, axis=0),
    "padded": lambda x: fx.pad(x, ((0, -x.shape[0] % 8), (0, 0))),
    "windows": lambda x: F.avg_pool1d(x.T[None], 3, 2),
    "sorted": lambda x: fx.sort(x, axis=0),
    "largest": lambda x: fx.topk(x, 4, axis=0)[0] if x.shape[0] > 4 else x,
    "lanes": lambda x: fx.vmap(lambda r: r * min(r.shape[0], x.shape[0]))(x),
    "scan": lambda x: fx.scan(lambda c, r: (c + r * min(x.shape[0], 7), r), x[0], x)[0],
    "shape only": lambda x: x.mT.shape[1] * 2,
    "numpy": lambda x: x * float(np.zeros(x.shape[0]).shape[0] % 7),
    "eval_shape": lambda x: x * min(fx.eval_shape(lambda v: v[1:], x).shape[0], 9),
    "text of another library": lambda x: x * len(json.dumps({"n": x.shape[0]})),
    "types in a method": lambda x: _typed["held"](x),
    "types": lambda x: x * (2 if type(x.shape[0]) is int else 3),
    "flipped": lambda x: fx.flip(x[:9], axis=0),
    "spread": lambda x: fx.broadcast_to(x[:, None], (x.shape[0], 2, 6)),
    "square": lambda x: (x.T @ x)[: x.shape[0]],
}  # fmt: skip

ORDERS = (
    [5, 7, 8, 9, 10, 11, 12, 13, 33, 6, 4, 3, 2, 1, 64, 17, 40],
    [8, 12, 16, 20, 24, 28, 10, 13, 33, 9, 36, 3, 7],
    [40, 33, 31, 30, 29, 15, 9, 12, 4, 2, 1, 70, 5],
    [5, 31, 32, 33, 34, 29, 65, 16, 8],
)


def _fresh(function):
    """A function whose code no other was jitted of, so that no program is shared."""
    line = random.randrange(10**6, 10**7)
    code = function.__code__.replace(co_firstlineno=line)
    return fx.jit(type(function)(code, function.__globals__, function.__name__))


@pytest.fixture(autouse=True)
def _without_gradients():
    with fx.no_grad():
        yield


def _outcome(function, x):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return fx.tree.leaves(function(x))
        except Exception as error:
            return type(error), str(error).splitlines()[0]


def _agrees(want, got, n):
    assert type(want) is type(got), (n, want, got)
    if type(want) is tuple:
        assert want[0] is got[0], (n, want, got)
        assert want[0] is not RuntimeError or want == got  # one of the user's
        return
    for x, y in zip(want, got, strict=True):
        assert type(x) is type(y), n
        if isinstance(x, fx.Tensor):
            assert (x.shape, x.dtype) == (y.shape, y.dtype), n
        np.testing.assert_allclose(y, x, rtol=2e-5, atol=2e-5, err_msg=f"size {n}")


@pytest.mark.parametrize("name", SERVED)
def test_no_new_size_is_staged_from_the_fifth_on(name):
    jitted = _fresh(SERVED[name])
    for i, n in enumerate((5, 7, 9, 10, 11, 12, 8, 6, 20, 33, 70, 9, 5)):
        _agrees(_outcome(SERVED[name], _x(n)), _outcome(jitted, _x(n)), n)
        assert jitted.cache_size() == min(i + 1, 4), jitted.explain()


@pytest.mark.parametrize("name", [*SERVED, *DECIDED])
def test_each_size_is_what_it_is_eagerly(name):
    """In an order of its own and in one of four, which turn; thorough, in all of them."""
    function = SERVED.get(name) or DECIDED[name]
    mixed = random.Random(name).choices(range(1, 72), k=9)
    turn = [*SERVED, *DECIDED].index(name) % len(ORDERS)
    for order in (*(ORDERS if THOROUGH else ORDERS[turn : turn + 1]), mixed):
        jitted = _fresh(function)
        for n in order:
            _agrees(_outcome(function, _x(n)), _outcome(jitted, _x(n)), n)


def test_two_arguments_of_one_size_and_of_others():
    def add(x, y):
        return x * 2 + y

    jitted = fx.jit(add)
    for n in (5, 7, 8, 9, 11):
        np.testing.assert_allclose(jitted(_x(n), _x(n)), add(_x(n), _x(n)))
    assert jitted.cache_size() == 4
    for n, m in ((9, 1), (1, 8), (12, 12), (8, 8)):
        np.testing.assert_allclose(jitted(_x(n), _x(m)), add(_x(n), _x(m)))
    with pytest.raises(ShapeError):
        jitted(_x(9), _x(8))


def test_two_sizes_that_vary_are_not_mixed_up():
    def product(x, y):
        return (x @ y.T) / x.shape[0] + y.shape[0]

    jitted = fx.jit(product)
    rng = random.Random(1)
    for _ in range(40):
        n, m = rng.randrange(1, 12), rng.randrange(1, 12)
        np.testing.assert_allclose(
            jitted(_x(n), _x(m)), product(_x(n), _x(m)), rtol=2e-5, atol=1e-5
        )


def test_state_and_settings_are_looked_at_in_each_call():
    total, scale = fx.state.Cell(fx.zeros(6)), {"by": 2.0}

    def step(x):
        total.rebind(total + x.sum(0) * scale["by"])
        return x * scale["by"]

    jitted, want = fx.jit(step), np.zeros(6)
    for n in (5, 7, 8, 9, 11, 12, 13, 14, 7):
        scale["by"] = 3.0 if n > 11 else 2.0
        np.testing.assert_allclose(jitted(_x(n)), np.asarray(_x(n)) * scale["by"], rtol=1e-6)
        want = want + np.asarray(_x(n)).sum(0) * scale["by"]
    np.testing.assert_allclose(total, want, rtol=1e-4, atol=1e-4)


def test_a_number_of_python_that_grows_with_the_sizes_is_no_size():
    held = {"k": 0}

    def scaled(x):
        return x * held["k"]

    jitted = fx.jit(scaled)
    for n, k in ((5, 5), (7, 7), (9, 9), (10, 10), (11, 10), (12, 10), (13, 10), (14, 14), (15, 9)):
        held["k"] = k
        np.testing.assert_array_equal(jitted(_x(n)), np.asarray(_x(n)) * np.float32(k))


def test_a_step_of_training_on_batches_of_any_size():
    def trained(wrap):
        fx.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        optimizer = fx.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), _classes(x))
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        with fx.enable_grad():
            losses = [float(step(_x(n))) for n in (5, 7, 9, 10, 11, 12, 31, 6, 20, 1, 2, 11)]
        return step, losses, [np.asarray(p.detach()) for p in model.parameters()]

    _, losses, weights = trained(lambda f: f)
    jitted, got, mine = trained(fx.jit)
    np.testing.assert_allclose(got, losses, rtol=1e-5)
    for x, y in zip(mine, weights, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
    assert jitted.cache_size() <= 6  # the first, three, and the smallest


def test_a_script_that_generates():
    model = _gpt.eval()
    tokens, counted = torch.tensor([[1, 2, 3, 4, 5, 6, 7]]), fx.jit(lambda t: model(t))
    for _ in range(20):
        np.testing.assert_allclose(counted(tokens), model(tokens), rtol=2e-5, atol=2e-6)
        following = torch.argmax(counted(tokens), dim=-1, keepdim=True)
        tokens = torch.cat([tokens, following], dim=1)
    assert counted.cache_size() == 4
