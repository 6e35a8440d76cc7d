"""What a hostile user passes: tensors in bad memory, numbers, words, and what fits nowhere."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import fx

DTYPES = [
    fx.float32, fx.float64, fx.float16, fx.bfloat16, fx.int8, fx.int32, fx.int64, fx.uint8,
    fx.uint64, fx.bool, fx.complex64, fx.complex128,
]  # fmt: skip
HUGE = [2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30]
NUMBERS = [0.5, -1.0, 0.0, 1.0, 2.0, 0.1, 1e-8, float("nan"), float("inf"), 1e30]
WORDS = [
    "mean", "sum", "none", "", "bogus", "xy", "ij", "reflect", "constant", "replicate", "circular",
    "nearest", "bilinear", "same", "valid", "left", "right", "cpu", "meta", "ij,jk->ik", "ii->i",
    "i...->...", "->", "i,i", "é\0", "float32", "zeros", "linear", "max", "relu", "tanh", "weight",
]  # fmt: skip
AXES = ("axis", "dim", "axes", "dims", "axis1", "axis2", "dim0", "dim1", "source", "destination",
        "start_dim", "end_dim")  # fmt: skip
SHAPES = ("shape", "size", "sizes", "normalized_shape", "repeats", "reps", "shifts")
COUNTS = ("kernel_size", "stride", "padding", "dilation", "groups", "output_padding", "output_size",
          "pad", "n", "k", "num_classes", "n_rows", "num_samples")  # fmt: skip
FUSED = ("conv_w", "conv_b", "linear_w", "linear_b", "bn_rm", "bn_rv", "bn_w", "bn_b")
LOOPS = ("num_layers", "num_encoder_layers", "num_decoder_layers", "num_workers", "max_iter")


class Values:
    """Draws arguments from one seed.

    Attributes:
        arrays: the arrays of the call to come, each with the bytes that it held.
        huge, meta: whether the call may ask for more memory than there is.
        building: whether an object is to be made, which takes sizes of at least 1.
        tame: whether a module stays a module, and options stay numbers, words and tensors.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.building = self.tame = False
        self.begin()

    def begin(self) -> None:
        """Start a call: what its tensors have in common."""
        rng = self.rng
        self.arrays: list[tuple[np.ndarray, bytes]] = []
        self.huge = self.meta = False
        self.base = tuple(rng.choice([0, 1, 2, 3, 4]) for _ in range(rng.randrange(5)))
        self.dtype = rng.choice([fx.float32, fx.float32, *DTYPES])

    # tensors ------------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        rng = self.rng
        if rng.random() < 0.5:
            return self.base
        return tuple(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]) for _ in range(rng.randrange(5)))

    def near(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that fits, or one that nearly does."""
        rng, out, way = self.rng, list(shape), self.rng.randrange(8)
        at = rng.randrange(len(out)) if out else 0
        if way == 0 and out:
            out[at] = rng.choice([0, 1, 2, 7])
        elif way == 1 and out:
            del out[at]
        elif way == 2:
            out.insert(at, rng.choice([0, 1, 2]))
        elif way == 3:
            rng.shuffle(out)
        return tuple(out)

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype).kind
        if kind == "b":
            a = self.numbers.random(shape) < 0.5
        elif kind in "iu":
            low = 0 if kind == "u" or self.rng.random() < 0.6 else -9
            a = self.numbers.integers(low, self.rng.choice([2, 4, 100]), shape)
        else:
            a = self.numbers.standard_normal(shape)
            if self.rng.random() < 0.3:
                special = self.numbers.choice([np.nan, np.inf, -np.inf, 0.0, 1e300], shape)
                a = np.where(self.numbers.random(shape) < 0.5, a, special)
        with np.errstate(all="ignore"):
            a = np.asarray(a).astype(dtype)
        if kind in "iu" and a.size and self.rng.random() < 0.1:
            self.huge = True
            a.flat[0] = np.iinfo(a.dtype).min if self.rng.random() < 0.5 else np.iinfo(a.dtype).max
        return self.layout(a)

    def layout(self, a: np.ndarray) -> np.ndarray:
        """The same values in memory that is laid out badly."""
        way = self.rng.randrange(8)
        if way == 0 and a.ndim:
            a = np.ascontiguousarray(a[::-1])[::-1]
        elif way == 1:
            a = np.asfortranarray(a)
        elif way == 2 and a.ndim:
            wide = np.zeros((*a.shape[:-1], a.shape[-1] * 3), a.dtype)
            wide[..., 1::3] = a
            a = wide[..., 1::3]
        elif way == 3:
            a = np.broadcast_to(a.ravel()[:1].reshape((1,) * a.ndim), a.shape) if a.size else a
        elif way == 4 and a.ndim and a.shape[0] == 1:
            a = np.lib.stride_tricks.as_strided(a, a.shape, (2**50, *a.strides[1:]))
        elif way == 5 and a.size:  # not aligned
            raw = np.zeros(a.nbytes + 1, np.uint8)
            b = np.frombuffer(raw[1:].data, a.dtype).reshape(a.shape)
            b[...] = a
            a = b
        if self.rng.random() < 0.2:
            a.flags.writeable = False
        return a

    def keep(self, a: np.ndarray) -> np.ndarray:
        self.arrays.append((a, a.tobytes()))
        return a

    def tensor(self, dtypes: Any = None, shape: tuple[int, ...] | None = None) -> Any:
        rng = self.rng
        if dtypes is None:
            dtypes = [self.dtype] if rng.random() < 0.6 else DTYPES
        dtype = rng.choice(dtypes)
        given, shape = shape, self.shape() if shape is None else shape
        way = rng.random()
        if way < 0.08:
            self.meta = self.huge = True
            if given is None and rng.random() < 0.5:
                shape = (3, 2**40, 2)[: rng.randrange(1, 4)]
            return fx.empty(shape, dtype=dtype, device="meta")
        array = self.keep(self.array(shape, dtype))
        if way < 0.15:
            return array
        x = fx.from_numpy(array)
        if way < 0.3 and dtype in (fx.float32, fx.float64):
            x = fx.tensor(x, requires_grad=True)
        elif way < 0.35:
            x = fx.nn.Parameter(x, requires_grad=dtype in (fx.float32, fx.float64))
        return x

    # numbers ------------------------------------------------------------------------------------

    def integer(self) -> int:
        pick = self.rng.random()
        if pick < 0.8:
            low = 1 if self.building and self.rng.random() < 0.9 else -3
            return self.rng.randrange(low, 6)
        if pick < 0.9:
            return self.rng.choice([1, 2, 4]) if self.building else self.rng.choice([-100, 64, 100])
        if self.building and pick < 0.98:
            return 2
        self.huge = True
        return self.rng.choice(HUGE)

    def integers(self) -> Any:
        pick = self.rng.random()
        if pick < 0.5:
            return self.integer()
        kind = self.rng.choice([tuple, list])
        return kind(self.integer() for _ in range(self.rng.randrange(4)))

    def yes(self) -> bool:
        return self.rng.random() < 0.5

    # objects ------------------------------------------------------------------------------------

    def module(self) -> Any:
        nn = fx.nn
        return self.rng.choice([
            lambda: nn.Linear(3, 4), lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)),
            lambda: nn.Conv2d(2, 3, 2), lambda: nn.BatchNorm2d(3), nn.Identity, nn.ReLU,
            lambda: nn.LSTM(3, 2), lambda: nn.LazyLinear(3), lambda: nn.ModuleList([nn.Tanh()]),
            lambda: nn.MultiheadAttention(4, 2), lambda: nn.Embedding(5, 3),
        ])()  # fmt: skip

    def parameters(self) -> Any:
        """Parameters of a model; some have a gradient."""
        out = [fx.nn.Parameter(fx.ones(self.near((2, 3)))) for _ in range(self.rng.randrange(4))]
        for p in out:
            if self.yes():
                p.grad = fx.full(p.shape, 0.5)
        return self.rng.choice([list, tuple, iter])(out)

    def image(self) -> Any:
        """A picture as a tensor, a PIL image or an array."""
        from PIL import Image

        way = self.rng.randrange(4)
        if way == 0:
            size = self.rng.randrange(1, 6), self.rng.randrange(1, 6)
            return Image.new(self.rng.choice(["L", "RGB", "1", "RGBA", "F", "I", "P"]), size, 3)
        if way == 1:
            return self.keep(self.array(self.near((5, 4, 3)), self.rng.choice(DTYPES)))
        dtypes = [fx.uint8, fx.float32] if self.rng.random() < 0.8 else DTYPES
        return self.tensor(dtypes, self.near((3, 5, 4)))

    def dataset(self) -> Any:
        data = fx.data
        return self.rng.choice([
            lambda: data.TensorDataset(fx.arange(6.0), fx.arange(6)), lambda: list(range(5)),
            lambda: data.TensorDataset(fx.ones(0, 2)), lambda: [{"a": 1}, {"a": 2}],
            lambda: data.Subset(range(3), [0, 7]), lambda: data.ChainDataset([]),
            lambda: [fx.ones(2), fx.ones(3)], lambda: ["x", "y"], lambda: [(1, "x"), (2, "y", 3)],
        ])()  # fmt: skip

    def anything(self) -> Any:
        rng = self.rng
        if self.tame:
            pair = (rng.choice(NUMBERS), rng.choice(NUMBERS))
            return rng.choice([None, self.yes(), self.integer(), rng.choice(WORDS), pair, 0.5])
        makers = [
            self.tensor, self.tensor, self.tensor, self.integer, self.integers,
            lambda: rng.choice(WORDS), lambda: None, self.yes,
            lambda: rng.choice([0.5, -1.0, 0.0, float("nan"), float("inf"), 1e300, 2j]),
            lambda: [self.tensor() for _ in range(rng.randrange(4))],
            lambda: tuple(self.tensor() for _ in range(rng.randrange(3))),
            lambda: rng.choice(DTYPES), lambda: {"a": self.tensor()}, lambda: slice(None, None, 2),
            lambda: rng.choice([fx.sum, fx.sin, fx.matmul, len, object()]),
            lambda: ..., lambda: [[1.0, 2.0], [3.0]], lambda: range(3), lambda: b"",
            lambda: np.array(["a"]), lambda: np.array([object()]), lambda: np.float32(2),
            lambda: np.zeros(2, "M8[s]"), lambda: int, lambda: float,
        ]  # fmt: skip
        return rng.choice(makers)()

    def value(self, name: str, kind: Any = "") -> Any:
        """A value for a parameter: mostly of the kind that its name and annotation ask for."""
        rng, kind = self.rng, str(kind)
        if name in LOOPS:
            return rng.choice([0, 0, 1, 2, -1, None, 0.5]) if name != "num_workers" else 0
        objects = {
            **dict.fromkeys(("module", "model", "layer", "bn", "conv", "linear"), self.module),
            **dict.fromkeys(("parameters", "params", "tensors"), self.parameters),
            **dict.fromkeys(("img", "pic", "image", "picture"), self.image),
            **dict.fromkeys(("dataset", "data_source", "batch"), self.dataset),
        }
        if self.tame and name in FUSED:
            return fx.asarray(self.tensor())
        if self.tame and name in objects:
            return objects[name]()
        if self.tame and name in ("x", "input", "tensor", "vec", "weight", "_weight"):
            return self.tensor() if not self.building or rng.random() < 0.3 else None
        if self.tame and name in ("transforms", "schedulers", "sequence", "packed_sequences", "p"):
            return []
        if rng.random() < (0.08 if self.tame else 0.15):
            return self.anything()
        if name in AXES:
            return self.integers()
        if name in SHAPES:
            return self.integers() if rng.random() < 0.6 else self.shape()
        if name in COUNTS:
            return self.integer() if kind == "int" and rng.random() < 0.8 else self.integers()
        if "dtype" in name:
            return rng.choice(DTYPES)
        if name == "device":
            self.meta = True
            return rng.choice(["cpu", "meta", "bogus", None])
        if "ind" in name or name in ("target", "labels", "index"):
            return self.tensor([fx.int64, fx.int32])
        if name in ("mask", "condition", "attn_mask"):
            return self.tensor([fx.bool])
        if name in ("equation", "subscripts", "mode", "reduction", "indexing", "side"):
            return rng.choice(WORDS)
        if name in ("f", "fn", "func", "function", "fun", "lr_lambda", "lambd"):
            return rng.choice([fx.sum, fx.sin, lambda *a: a[0], lambda *a: None, fx.sort])
        if name == "key":
            return fx.random.key(rng.randrange(9))
        return self.of_kind(kind)

    def of_kind(self, kind: str) -> Any:
        rng = self.rng
        if kind.startswith("bool"):
            return self.yes()
        if kind.startswith("int"):
            return self.integer()
        if kind.startswith("float"):
            return rng.choice(NUMBERS)
        if kind.startswith("str"):
            return rng.choice(WORDS)
        if self.building and rng.random() < 0.7:
            pair = (rng.choice(NUMBERS), rng.choice(NUMBERS))
            return rng.choice([rng.choice(NUMBERS), pair, self.integers(), self.integer()])
        return self.tensor()
