"""What the tests of primitives share: arrays in, arrays out."""

import ml_dtypes
import numpy as np

import fx
from fx.ops.convert import from_array
from fx.prims.reduction import sum as total

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
NARROW = (np.dtype(np.float16), BFLOAT16)
INTEGERS = tuple(np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))
INF, NAN = float("inf"), float("nan")


def tensor(array, dtype=None):
    """A plain CPU tensor of anything that NumPy takes."""
    return from_array(np.asarray(array, dtype), "cpu")


def array(x):
    """The values of a plain tensor."""
    assert type(x) is fx.Tensor
    return x._a


def run(primitive, *arrays, **params):
    """A primitive on arrays; arrays come back."""
    out = primitive(*map(tensor, arrays), **params)
    return tuple(map(array, out)) if isinstance(out, tuple) else array(out)


def gradients(function, *arrays, weights=None):
    """Of the sum of the first floating output, perhaps weighted, in every floating argument."""
    xs = [tensor(a) for a in arrays]
    wrt = [i for i, a in enumerate(arrays) if np.asarray(a).dtype.kind == "f"]

    def loss(*moving):
        full = list(xs)
        for i, x in zip(wrt, moving, strict=True):
            full[i] = x
        out = function(*full)
        out = out[0] if isinstance(out, tuple) else out
        if weights is not None:
            out = out * tensor(weights)
        return total(out, axes=tuple(range(out.ndim)), keepdims=False)

    found = fx.grad(loss, tuple(range(len(wrt))))(*[xs[i] for i in wrt])
    return tuple(map(array, found))


def bound(primitive, **params):
    """The primitive with its parameters fixed."""
    return lambda *xs: primitive(*xs, **params)


def draws(*shape, seed=0, dtype=np.float64):
    """Normal values."""
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)
