"""A hostile user: calls every public function and method with arguments that may not fit.

Run it as a program, ``python fuzzer.py SEED CALLS [TRACE]``: it prints one line for each call that
went wrong and returns 1 if there is one. The call about to run is written to the file TRACE, so
that whoever started the program can name the call that killed it.
"""

from __future__ import annotations

import inspect
import resource
import signal
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from targets import Layer, Made, targets
from values import Values

import fx

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
ON_PURPOSE = (AssertionError, AttributeError, KeyError, NotImplementedError)
STRICT = ("fx.", "F.", "Tensor.")
MANY = (  # what is asked for piece by piece
    "split", "chunk", "unbind", "unstack", "pool", "sampl", "interpolate", "indices", "array",
)  # fmt: skip
SECONDS = 10  # for one call, before it counts as hanging


class Hang(BaseException):
    """A call took too long."""


class Fuzzer(Values):
    """Makes calls, and says what is wrong about them."""

    # calls --------------------------------------------------------------------------------------

    def arguments(self, function: Any) -> tuple[list[Any], dict[str, Any]]:
        rng, signature = self.rng, _signature(function)
        args: list[Any] = []
        named: dict[str, Any] = {}
        if isinstance(function, Layer):
            dtypes = [fx.float32] if rng.random() < 0.7 else None
            integral = [fx.int64]
            return [
                self.tensor(integral if rng.random() < 0.2 else dtypes, self.near(shape))
                for shape in function.shapes
            ], named
        if signature is None:
            return [self.value("x") for _ in range(rng.randrange(1, 4))], named
        positional = True
        for p in signature.parameters.values():
            if p.kind is p.VAR_POSITIONAL:
                args += [self.anything() for _ in range(rng.randrange(3))] if positional else []
            elif p.kind is p.VAR_KEYWORD or (p.default is not p.empty and rng.random() < 0.6):
                positional = False
            elif positional and p.kind is not p.KEYWORD_ONLY:
                args.append(self.value(p.name, p.annotation))
            elif p.kind is not p.POSITIONAL_ONLY:
                positional = False
                named[p.name] = self.value(p.name, p.annotation)
        return args, named

    def one(self, name: str, function: Any, method: bool, trace: Any) -> str | None:
        """Make one call; what is wrong about it, or None."""
        self.begin()
        self.building = isinstance(function, Made)
        self.tame = not name.startswith(STRICT)
        args, named = self.arguments(function)
        then = [self.tensor() for _ in range(self.rng.randrange(1, 3))]
        if method and not (args and isinstance(args[0], fx.Tensor)):
            args[:1] = [fx.from_numpy(self.keep(self.array(self.shape(), self.dtype)))]
        shown = f"{name}({_show(args, named)})"
        if trace is not None:
            trace.seek(0)
            trace.truncate()
            trace.write(shown)
            trace.flush()
        so_many = self.huge and any(word in name.lower() for word in MANY)
        signal.alarm(1 if so_many else SECONDS)
        try:
            out = function(*args, **named)
            if isinstance(out, fx.nn.Module):
                shown += f"({_show(then, {})})"
                out = out(*then)
            if inspect.isgenerator(out) or isinstance(out, map | zip):
                list(zip(range(5), out, strict=False))
            if isinstance(out, fx.Tensor):
                wrong = _broken(out)
                if wrong:
                    return f"{shown}: the result {wrong}"
        except Hang:
            if so_many:
                return None
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
        frames = traceback.extract_tb(error.__traceback__)
        deliberate = str(frames[-1].line).startswith(("raise ", "assert "))
        if isinstance(error, ON_PURPOSE) and deliberate and not shown.startswith(STRICT):
            return None  # of a layer or an optimizer, where PyTorch raises such a one
        if isinstance(error, REFUSED) or not isinstance(error, ACCEPTED):
            trouble = "is no error of a user's"
        elif not text.strip():
            trouble = "has no message"
        elif any(leak in text for leak in LEAKS) and not isinstance(error, fx.errors.FxError):
            if text.startswith("Tensor.") or "required positional" in text:
                return None  # Python's own words about a call's arguments
            if text.startswith("unhashable type") or "cannot be interpreted as an" in text:
                return None
            if "ufunc" in text and any(w in shown for w in ("datetime64", ":<U", ":object", "b''")):
                return None  # of arrays that hold no numbers
            trouble = "speaks of the inside"
        else:
            return None
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
    once = tuple([slice(None) if step else slice(0, 1) for step in array.strides])
    array[once].sum() if array.dtype.kind in "iufc" else None  # reads all of it
    repr(out)
    return None


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
