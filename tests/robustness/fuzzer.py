"""A hostile user: calls every public function and method with arguments that may not fit.

Run it as a program, ``python fuzzer.py SEED CALLS [TRACE]``: it prints one line for each call that
went wrong and returns 1 if there is one. The call about to run is written to the file TRACE, so
that whoever started the program can name the call that killed it.
"""

from __future__ import annotations

import inspect
import random
import resource
import signal
import sys
import traceback
import warnings
from typing import Any

import numpy as np

import fx
import fx.nn.functional as F

# what a function may raise: never an AttributeError, KeyError, RecursionError … of fx's inside
ACCEPTED = (
    ValueError,
    TypeError,
    IndexError,
    RuntimeError,
    OverflowError,
    BufferError,
)
REFUSED = (RecursionError, UnicodeError, NotImplementedError)
LEAKS = (
    "ufunc",
    "NoneType' object has no attribute",
    "could not broadcast",
    "operands could not be",
    "_ArrayMemoryError",
    "not enough values to unpack",
    "too many values to unpack",
    "cannot unpack",
    "zip() argument",
    "Numba",
    "numba",
    "prims.",
    "matching signature",
    "object is not iterable",
    "required positional",
    "max() arg",
    "min() arg",
)
# these change what later calls mean, or wait for input
LEFT_OUT = {"set_default_dtype", "set_default_device", "set_printoptions", "set_rng_state"}
DTYPES = [
    fx.float32, fx.float64, fx.float16, fx.bfloat16, fx.int8, fx.int32, fx.int64, fx.uint8,
    fx.uint64, fx.bool, fx.complex64, fx.complex128,
]  # fmt: skip
HUGE = [2**31, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30]
WORDS = [
    "mean", "sum", "none", "", "bogus", "xy", "ij", "reflect", "constant", "replicate", "circular",
    "nearest", "bilinear", "same", "valid", "left", "right", "cpu", "meta", "ij,jk->ik", "ii->i",
    "i...->...", "->", "i,i", "é\0", "float32",
]  # fmt: skip
MANY = ("tensor_split", "adaptive", "unbind", "unstack", "split", "chunk")  # results, if asked
SECONDS = 10  # for one call, before it counts as hanging


class Hang(BaseException):
    """A call took too long."""


class Fuzzer:
    """Draws calls from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.arrays: list[tuple[np.ndarray, bytes]] = []
        self.shown: list[str] = []

    # values -------------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        rng = self.rng
        if rng.random() < 0.5:
            return self.base
        return tuple(rng.choice([0, 1, 1, 2, 2, 3, 4, 5]) for _ in range(rng.randrange(5)))

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

    def tensor(self, dtypes: Any = None) -> Any:
        rng = self.rng
        pick = rng.random()
        if dtypes is None:
            dtypes = [self.dtype] if pick < 0.6 else DTYPES
        dtype, shape = rng.choice(dtypes), self.shape()
        way = rng.random()
        if way < 0.08:
            shape = shape if rng.random() < 0.5 else (3, 2**40, 2)[: rng.randrange(1, 4)]
            self.meta = self.huge = True
            return fx.empty(shape, dtype=dtype, device="meta")
        array = self.keep(self.array(shape, dtype))
        if way < 0.15:
            return array
        x = fx.from_numpy(array)
        if way < 0.3 and dtype in (fx.float32, fx.float64):
            x = fx.tensor(x, requires_grad=True)
        return x

    def integer(self) -> int:
        pick = self.rng.random()
        if pick < 0.8:
            return self.rng.randrange(-3, 6)
        if pick < 0.9:
            return self.rng.choice([-100, 64, 100])
        self.huge = True
        return self.rng.choice(HUGE)

    def integers(self) -> Any:
        pick = self.rng.random()
        if pick < 0.5:
            return self.integer()
        kind = self.rng.choice([tuple, list])
        return kind(self.integer() for _ in range(self.rng.randrange(4)))

    def anything(self) -> Any:
        rng = self.rng
        makers = [
            self.tensor, self.tensor, self.tensor, self.integer, self.integers,
            lambda: rng.choice(WORDS), lambda: None, lambda: rng.choice([True, False]),
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

    def value(self, name: str) -> Any:
        """A value for a parameter: mostly of the kind that its name asks for."""
        if self.rng.random() < 0.15:
            return self.anything()
        if name in ("axis", "dim", "axes", "dims", "axis1", "axis2", "dim0", "dim1", "source",
                    "destination", "start_dim", "end_dim"):  # fmt: skip
            return self.integers()
        if name in ("shape", "size", "sizes", "normalized_shape", "repeats", "reps", "shifts"):
            return self.integers() if self.rng.random() < 0.6 else self.shape()
        if name in (
            "kernel_size",
            "stride",
            "padding",
            "dilation",
            "groups",
            "output_padding",
            "output_size",
            "pad",
            "n",
            "k",
            "num_classes",
            "n_rows",
            "num_samples",
        ):
            return self.integers()  # fmt: skip
        if "dtype" in name:
            return self.rng.choice(DTYPES)
        if name == "device":
            self.meta = True
            return self.rng.choice(["cpu", "meta", "bogus", None])
        if "ind" in name or name in ("target", "labels", "index"):
            return self.tensor([fx.int64, fx.int32])
        if name in ("mask", "condition", "attn_mask"):
            return self.tensor([fx.bool])
        if name in ("equation", "subscripts", "mode", "reduction", "indexing", "side"):
            return self.rng.choice(WORDS)
        if name in ("f", "fn", "func", "function", "fun"):
            return self.rng.choice([fx.sum, fx.sin, lambda *a: a[0], lambda *a: None, fx.sort])
        if name == "key":
            return fx.random.key(self.rng.randrange(9))
        return self.tensor()

    # calls --------------------------------------------------------------------------------------

    def arguments(self, signature: inspect.Signature | None) -> tuple[list[Any], dict[str, Any]]:
        rng = self.rng
        args: list[Any] = []
        named: dict[str, Any] = {}
        if signature is None:
            return [self.value("x") for _ in range(rng.randrange(1, 4))], named
        positional = True
        for p in signature.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                args += [self.anything() for _ in range(rng.randrange(3))] if positional else []
            elif p.kind is p.VAR_KEYWORD or (p.default is not p.empty and rng.random() < 0.6):
                positional = False
            elif positional and p.kind is not p.KEYWORD_ONLY:
                args.append(self.value(p.name))
            elif p.kind is not p.POSITIONAL_ONLY:
                positional = False
                named[p.name] = self.value(p.name)
        return args, named

    def one(self, name: str, function: Any, method: bool, trace: Any) -> str | None:
        """Make one call; what is wrong about it, or None."""
        self.arrays, self.huge, self.meta = [], False, False
        self.base = tuple(self.rng.choice([0, 1, 2, 3, 4]) for _ in range(self.rng.randrange(5)))
        self.dtype = self.rng.choice([fx.float32, fx.float32, *DTYPES])
        args, named = self.arguments(_signature(function))
        if method and not (args and isinstance(args[0], fx.Tensor)):
            args[:1] = [fx.from_numpy(self.keep(self.array(self.shape(), self.dtype)))]
        shown = f"{name}({_show(args, named)})"
        if trace is not None:
            trace.seek(0)
            trace.truncate()
            trace.write(shown)
            trace.flush()
        signal.alarm(SECONDS)
        try:
            out = function(*args, **named)
            if inspect.isgenerator(out) or isinstance(out, map | zip):
                list(zip(range(5), out, strict=False))
            if isinstance(out, fx.Tensor):
                wrong = _broken(out)
                if wrong:
                    return f"{shown}: the result {wrong}"
        except Hang:
            if self.huge and name.partition(".")[2].startswith(MANY):
                return None  # so many pieces were asked for
            return f"{shown}: hangs\n{traceback.format_exc()}"
        except MemoryError as error:
            if not (self.huge or self.meta):  # a small call has to fit
                return f"{shown}: {error!r}"
        except Exception as error:
            return self.judge(shown, error)
        finally:
            signal.alarm(0)
            fx.set_default_device("cpu")
            fx.set_default_dtype(fx.float32)
            fx.set_grad_enabled(True)
        for array, before in self.arrays:
            if array.tobytes() != before:
                return f"{shown}: an input changed"
        return None

    def judge(self, shown: str, error: Exception) -> str | None:
        text = str(error)
        if isinstance(error, REFUSED) or not isinstance(error, ACCEPTED):
            trouble = "is no error of a user's"
        elif not text.strip():
            trouble = "has no message"
        elif any(leak in text for leak in LEAKS) and not isinstance(error, fx.errors.FxError):
            if text.startswith("Tensor.") or "required positional" in text:
                return None  # Python's own words about a call's arguments
            if text.startswith("unhashable type") or "cannot be interpreted as an" in text:
                return None
            if "ufunc" in text and any(w in shown for w in ("datetime64", ":<U", ":object")):
                return None  # of arrays that hold no numbers
            trouble = "speaks of the inside"
        else:
            return None
        frames = traceback.extract_tb(error.__traceback__)
        where = " < ".join(f"{f.filename.split('/main/')[-1]}:{f.lineno}" for f in frames[:-7:-1])
        return f"{shown}: {type(error).__name__} {trouble}: {text}  [{where}]"


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _show(args: list[Any], named: dict[str, Any]) -> str:
    return ", ".join([*map(_word, args), *[f"{k}={_word(v)}" for k, v in named.items()]])


def _word(value: Any) -> str:
    if isinstance(value, fx.Tensor):
        if value.device.name == "meta" or value.size > 12:
            return repr(value.spec)
        array = np.asarray(value.detach())
        return f"T({array.tolist()}, {value.dtype.name}, shape={value.shape}, s={array.strides})"
    if isinstance(value, np.ndarray):
        return f"np{value.shape}:{value.dtype}"
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_word, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    return repr(value)[:80]


def _broken(out: Any) -> str | None:
    """Whether a result is no sound tensor."""
    if out.level != -1 or out.device.name == "meta":
        return None
    array = np.asarray(out.detach())
    if array.shape != out.shape or array.dtype != out.dtype:
        return f"is {out.spec!r} around an array {array.shape} {array.dtype}"
    array.sum() if array.dtype.kind in "iufc" else None  # reads all of it
    repr(out)
    return None


def targets() -> list[tuple[str, Any, bool]]:
    """Every public function and method: name, callable, whether it is a method."""
    found: list[tuple[str, Any, bool]] = []
    for title, module in (("fx", fx), ("F", F), ("fx.random", fx.random)):
        for name in sorted(set(dir(module))):
            value = getattr(module, name)
            if name.startswith("_") or name in LEFT_OUT or not callable(value):
                continue
            if isinstance(value, type) or inspect.ismodule(value):
                continue
            found.append((f"{title}.{name}", value, False))
    skipped = {"__class__", "__init_subclass__", "__subclasshook__", "__new__", "__reduce_ex__",
               "__dir__", "__getattribute__", "__setattr__", "__delattr__", "__init__",
               "__getstate__", "__sizeof__"}  # fmt: skip
    for name in sorted(dir(fx.Tensor)):
        value = inspect.getattr_static(fx.Tensor, name)
        if name in skipped or (name.startswith("_") and not name.startswith("__")):
            continue
        if callable(value) and not isinstance(value, type):
            found.append((f"Tensor.{name}", value, True))
    return found


def _too_long(number: int, frame: Any) -> None:
    raise Hang


def main(seed: int, calls: int, trace_path: str | None = None) -> int:
    """Make ``calls`` calls; 1 if one of them went wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.signal(signal.SIGALRM, _too_long)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    fuzzer, wrong, every = Fuzzer(seed), 0, targets()
    order: list[Any] = []
    trace = open(trace_path, "w") if trace_path else None  # noqa: SIM115 - to the end
    for _ in range(calls):
        if not order:
            order = every[:]
            fuzzer.rng.shuffle(order)
        name, function, method = order.pop()
        trouble = fuzzer.one(name, function, method, trace)
        if trouble:
            wrong += 1
            print(trouble, flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]))
