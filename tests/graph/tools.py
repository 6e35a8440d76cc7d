"""What the tests of graphs share: building nodes, random programs, comparison to the bit."""

import random

import ml_dtypes
import numpy as np

from fx.errors import FxError
from fx.graph import Graph, Node, constant_value, input_value
from fx.ops.convert import from_array
from fx.primitive import registry
from fx.spec import TensorSpec

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 1e-40, 3e38, float("inf"), -float("inf"),
           float("nan")]  # fmt: skip
TAME = [0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 0.3, 0.7, -0.1]


def value(array):
    """A constant value of an array."""
    return constant_value(from_array(np.asarray(array), "cpu"))


def argument(array_or_shape, dtype="float32"):
    """An input of the spec of an array, or of a shape."""
    if isinstance(array_or_shape, tuple):
        return input_value(TensorSpec(array_or_shape, np.dtype(dtype)))
    return input_value(TensorSpec(array_or_shape.shape, array_or_shape.dtype))


class Build:
    """Nodes in order: ``b.sin(x)`` adds one and gives its value."""

    def __init__(self, *inputs):
        self.inputs = inputs
        self.nodes = []

    def __getattr__(self, name):
        def add(*inputs, line="", **params):
            node = Node(registry[name], inputs, params, None, line)
            self.nodes.append(node)
            return node.outs if node.primitive.multiple else node.out

        return add

    def graph(self, *outputs):
        return Graph(self.inputs, self.nodes, outputs)


def names(graph):
    """The primitives of a graph, in order."""
    return [node.primitive.name for node in graph.nodes]


def run(graph, *arrays):
    """The interpreter on arrays."""
    with np.errstate(all="ignore"):
        outs = graph.run(*[from_array(np.asarray(a), "cpu") for a in arrays])
    return [x._a for x in outs]


def assert_same_bits(got, want):
    """Equal shapes, dtypes and elements; -0.0 is not 0.0, and NaN is NaN."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind == "c":
            pairs = [(a.real, b.real), (a.imag, b.imag)]
        else:
            pairs = [(a, b)]
        for x, y in pairs:
            if x.dtype.kind not in "biu":
                x, y = x.astype(np.float64), y.astype(np.float64)
                assert np.array_equal(np.isnan(x), np.isnan(y))
                number = ~np.isnan(x)
                assert np.array_equal(np.signbit(x[number]), np.signbit(y[number]))
            assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def assert_close(got, want):
    """Equal up to a few roundings of the dtype, relative to the largest element."""
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        if a.dtype.kind in "biu":
            assert np.array_equal(a, b)
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        size = np.abs(y[np.isfinite(y)]).max(initial=0.0)
        room = 16 * float(ml_dtypes.finfo(a.dtype).eps) * (size + 1)
        np.testing.assert_allclose(x, y, rtol=0, atol=room)


# random programs --------------------------------------------------------------------------------

DTYPES = [np.dtype(t) for t in ("bool", "int32", "uint8", "float16", "float32", "float64")]
DTYPES.append(np.dtype(ml_dtypes.bfloat16))
SHAPES = [(), (1,), (3,), (2, 3), (2, 1), (1, 3), (2, 1, 3), (1, 1), (4, 2, 3)]

FLOAT_UNARY = ["exp", "tanh", "sqrt", "square", "reciprocal", "rsqrt", "sin"]
ANY_UNARY = ["negative", "abs", "stop_gradient", "floor", "ceil", "round"]
REAL_BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
RELATIONS = ["less", "greater_equal", "equal", "not_equal", "greater"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]
LOGIC = ["logical_and", "logical_or", "logical_xor"]


class Program:
    """A random graph whose results no exact rewrite may change, with arguments for it.

    Args:
        seed: of the choices.
        steps: how many nodes are tried.
        exact: leave out what a rewrite may round otherwise (sums, products of matrices, powers).
    """

    def __init__(self, seed, steps=25, exact=True):
        self.numbers = SPECIAL if exact else TAME
        self.choose = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.arrays = [self.array(s, d) for s, d in self.specs(4)]
        self.values = [argument(a) for a in self.arrays]
        self.build = Build(*self.values)
        self.values += [value(self.array(s, d)) for s, d in self.specs(4)]
        self.exact = exact
        for _ in range(steps):
            try:
                self.step()
            except (FxError, IndexError):  # what does not fit is tried and left out
                continue
        outs = self.choose.sample(self.values, 6)
        self.graph = self.build.graph(*self.values[-6:], *outs)

    def specs(self, n):
        return [(self.choose.choice(SHAPES), self.choose.choice(DTYPES)) for _ in range(n)]

    def array(self, shape, dtype):
        if self.choose.random() < 0.3:
            shape = ()
        if dtype.kind == "b":
            return self.numpy.integers(0, 2, shape).astype(bool)
        if dtype.kind in "iu":
            return self.numpy.choice([0, 1, 2, 3, 7, 100, 255], shape).astype(dtype)
        with np.errstate(all="ignore"):
            return np.asarray(self.numpy.choice(self.numbers, shape)).astype(dtype)

    def pick(self, dtype=None, kinds=""):
        found = [
            v
            for v in self.values
            if (dtype is None or v.spec.dtype == dtype)
            and (not kinds or v.spec.dtype.kind in kinds)
        ]
        # late values more often, so that programs are deep
        return self.choose.choice(found[-8:] if self.choose.random() < 0.7 else found)

    def step(self):
        out = getattr(self, "_" + self.choose.choice(STEPS if self.exact else [*STEPS, *ROUNDED]))()
        self.values += out if isinstance(out, tuple) else (out,)

    def _unary(self):
        name = self.choose.choice([*ANY_UNARY, "logical_not", "isnan", "isfinite", "sign", "relu"])
        return getattr(self.build, name)(self.pick())

    def _binary(self):
        x = self.pick()
        return getattr(self.build, self.choose.choice(REAL_BINARY))(x, self.pick(x.spec.dtype))

    def _scalar(self):
        x = self.pick()
        number = self.choose.choice([0, 1, -1, 2, 4, 0.5])
        with np.errstate(all="ignore"):
            y = value(np.asarray(float(number)).astype(x.spec.dtype))
        pair = (x, y) if self.choose.random() < 0.6 else (y, x)
        name = self.choose.choice([*REAL_BINARY, *BITS, *LOGIC])
        return getattr(self.build, name)(*pair)

    def _relation(self):
        x = self.pick()
        name = self.choose.choice([*RELATIONS, *BITS, *LOGIC])
        return getattr(self.build, name)(x, self.pick(x.spec.dtype))

    def _where(self):
        x = self.pick()
        condition = self.build.isfinite(self.pick())
        if self.choose.random() < 0.3:
            condition = self.build.logical_not(condition)
        return self.build.where(condition, x, self.pick(x.spec.dtype))

    def _astype(self):
        x = self.pick()
        wanted = self.choose.choice(DTYPES)
        # what a cast of NaN or of too large a number gives depends on the processor
        if x.spec.dtype.kind not in "biu" and wanted.kind in "biu":
            wanted = self.choose.choice(DTYPES[3:])
        return self.build.astype(x, dtype=wanted)

    def _reshape(self):
        x = self.pick()
        shapes = [s for s in SHAPES if np.prod(s, dtype=int) == x.spec.size]
        return self.build.reshape(x, shape=self.choose.choice([*shapes, (*x.spec.shape, 1)]))

    def _transpose(self):
        x = self.pick()
        axes = list(range(x.spec.ndim))
        self.choose.shuffle(axes)
        return self.build.transpose(x, axes=tuple(axes))

    def _broadcast(self):
        return self.build.broadcast_to(self.pick(), shape=self.choose.choice(SHAPES))

    def _full(self):
        dtype = self.choose.choice(DTYPES)
        number = self.choose.choice([0, 1, 2])
        shape = self.choose.choice(SHAPES)
        return self.build.full(shape=shape, value=number, dtype=dtype, device="cpu")

    def _iota(self):
        return self.build.iota(
            shape=(2, 3), axis=self.choose.randint(0, 1), start=0, step=1,
            dtype=self.choose.choice(DTYPES[1:]), device="cpu",
        )  # fmt: skip

    def _slice(self):
        x = self.pick()
        start = tuple([self.choose.randint(0, n) if n > 1 else 0 for n in x.spec.shape])
        stop = tuple([self.choose.randint(a, n) for a, n in zip(start, x.spec.shape, strict=True)])
        step = tuple([self.choose.randint(1, 2) for _ in start])
        if self.choose.random() < 0.5:
            start, stop = (0,) * len(start), x.spec.shape
        return self.build.slice(x, start=start, stop=stop, step=step, drop=())

    def _concatenate(self):
        x = self.pick()
        axis = self.choose.randrange(max(x.spec.ndim, 1))
        pieces = [x, *[self.pick(x.spec.dtype) for _ in range(self.choose.randint(0, 2))]]
        out = self.build.concatenate(*pieces, axis=axis)
        n = out.spec.shape[axis]
        start, stop = [0] * out.spec.ndim, list(out.spec.shape)
        start[axis] = self.choose.randint(0, n)
        stop[axis] = self.choose.randint(start[axis], n)
        step = (1,) * len(start)
        cut = self.build.slice(out, start=tuple(start), stop=tuple(stop), step=step)
        return out, cut

    def _pad(self):
        x = self.pick()
        widths = [tuple([self.choose.randint(0, 1) for _ in x.spec.shape]) for _ in range(3)]
        number = value(np.asarray(self.choose.choice([0, 1])).astype(x.spec.dtype))
        return self.build.pad(x, number, low=widths[0], high=widths[1], inside=widths[2])

    def _flip(self):
        x = self.pick()
        axes = tuple([i for i in range(x.spec.ndim) if self.choose.random() < 0.5])
        return self.build.flip(x, axes=axes)

    def _extremum(self):
        x = self.pick()
        axes = tuple([i for i in range(x.spec.ndim) if self.choose.random() < 0.5])
        name = self.choose.choice(["max", "min", "any", "all"])
        return getattr(self.build, name)(x, axes=axes, keepdims=self.choose.random() < 0.5)

    def _single(self):
        """A sum over axes of size 1."""
        x = self.pick()
        axes = tuple([i for i, n in enumerate(x.spec.shape) if n == 1])
        return self.build.sum(x, axes=axes, keepdims=self.choose.random() < 0.5)

    def _function(self):
        return getattr(self.build, self.choose.choice(FLOAT_UNARY))(self.pick(kinds="fV"))

    def _divide(self):
        x = self.pick(kinds="fV")
        number = self.choose.choice([1, 2, -1, 0.25, 3, 0])
        y = value(np.asarray(number).astype(x.spec.dtype))
        return self.build.divide(x, y if self.choose.random() < 0.7 else self.pick(x.spec.dtype))

    def _sum(self):
        x = self.pick()
        axes = tuple([i for i in range(x.spec.ndim) if self.choose.random() < 0.5])
        return self.build.sum(x, axes=axes, keepdims=self.choose.random() < 0.5)

    def _matmul(self):
        x, y = self.pick(kinds="fV"), None
        y = self.pick(x.spec.dtype)
        if self.choose.random() < 0.5:
            x = self.build.transpose(x, axes=(1, 0))
        out = self.build.matmul(x, y)
        return out, self.build.transpose(out, axes=(1, 0))

    def _power(self):
        x = self.pick(kinds="iufV")
        number = self.choose.choice([0, 1, 2, 3, 4, -1])
        if number < 0 and x.spec.dtype.kind in "iu":
            number = 2
        return self.build.power(x, value(np.asarray(number).astype(x.spec.dtype)))

    def _composite(self):
        name = self.choose.choice(["relu", "sigmoid", "softplus", "softmax", "logsumexp", "sum_to"])
        x = self.pick(kinds="fV")
        if name == "sum_to":
            return self.build.sum_to(x, shape=self.choose.choice(SHAPES))
        if name == "softmax":
            return self.build.softmax(x, axis=x.spec.ndim - 1)
        if name == "logsumexp":
            return self.build.logsumexp(x, axes=tuple(range(x.spec.ndim)), keepdims=False)
        return getattr(self.build, name)(x)


STEPS = [
    "unary", "unary", "binary", "binary", "scalar", "scalar", "relation", "where", "astype",
    "reshape", "transpose", "broadcast", "full", "iota", "slice", "concatenate", "pad", "flip",
    "extremum", "single", "function", "divide",
]  # fmt: skip
ROUNDED = ["sum", "matmul", "power", "composite"]
