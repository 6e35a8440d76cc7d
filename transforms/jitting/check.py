"""Check: compiled calls that are run eagerly as well, on the same state, and compared.

``fx.jit(f, check=True)``, ``check=n`` and ``FX_CHECK=n`` do it at every n-th call. The eager run
happens in a copy of the process (``fork``), where it finds cells, random state, numbers and all
else of Python's as the compiled call finds them, and where what it does to them ends with it.
Results, cells, gradients and numbers come back through a pipe. Should they differ, another copy, in
which nothing has run, looks for the first node of the graph that does.

Dtypes and shapes, integers, bools and other objects must be equal; floating numbers may differ by
rounding, in proportion to the largest of the array (``TOLERANCE``), and by what other last bits of
cells and arguments make of them: Adam's step is as large for a gradient of noise.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import struct
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from fx import tree
from fx.config import modes
from fx.dtypes import FLOATING
from fx.errors import CheckError
from fx.frames import user_line
from fx.numbers import Numbers
from fx.state import Cell
from fx.tape import CELL, Leaf
from fx.tensor import Tensor, new_tensor
from fx.transforms._arguments import name_of
from fx.transforms.jitting.check_nodes import first_difference
from fx.transforms.jitting.function import Jitted

TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 5e-2}
TOLERANCE |= {"complex128": 1e-9, "complex64": 2e-4}
SHAKES = 4
PATIENCE = 120.0  # seconds that a copy may take

_inside = False  # whether this process is such a copy


class Checked(Jitted):
    """A jitted function whose every n-th call is checked.

    Args:
        function, more: as of ``Jitted``.
        every: how often.
        raises: whether a difference is an error or a warning.
    """

    def __init__(
        self, function: Callable[..., Any], *more: Any, every: int = 1, raises: bool = True
    ) -> None:
        super().__init__(function, *more)
        self.every, self.raises, self.count = every, raises, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        if _inside or self.count % self.every or modes.stage is not None or _traced(args, kwargs):
            return super().__call__(*args, **kwargs)
        state = State()
        with (  # in none of them anything has run
            Copy(lambda: first_difference(self, args, kwargs), waits=True) as finder,
            Copy(lambda: self._shaken(args, kwargs, state), waits=True) as shaken,
            Copy(lambda: outcome(self.function, args, kwargs, state)) as eager,
        ):
            found, error = None, None
            try:
                found = super().__call__(*args, **kwargs)
            except Exception as raised:
                error = raised
            there = eager.answer()
            here = described(found, error, state)
            if there is None:
                self._say(f"call {self.count} could not be checked: its eager run gave no answer")
            elif difference(here, there) and (why := difference(here, there, shaken.answer())):
                where = finder.answer()
                self._say(
                    f"call {self.count} at {user_line()} is not what it is eagerly: {why}"
                    + (f"\n{where}" if where else "")
                )
        if error is not None:
            raise error
        return found

    def _shaken(self, args: Any, kwargs: Any, state: State) -> list[Any]:
        """What the function does for some other last bits, each in a copy of its own."""
        found = []
        for phase in range(SHAKES):
            run = lambda phase=phase: outcome(
                self.function, *state.shaken(args, kwargs, phase), state
            )
            with Copy(run) as copy:
                found.append(copy.answer())
        return [x for x in found if x is not None]

    def _say(self, what: str) -> None:
        what = f"jit check of {name_of(self.function)}: {what}"
        if self.raises:
            raise CheckError(what)
        warnings.warn(what, RuntimeWarning, stacklevel=3)


def _traced(args: Any, kwargs: Any) -> bool:
    """Whether a call is part of a transform, which asks for no values."""
    return any(isinstance(x, Tensor) and 0 < x.level < CELL for x in tree.leaves((args, kwargs)))


# what there is besides results ------------------------------------------------------------------


class State:
    """The cells, gradients and numbers that a process holds, to be read now and later."""

    def __init__(self) -> None:
        every = gc.get_objects()
        cells = [x for x in every if issubclass(type(x), Cell)]
        self.cells = [x for x in cells if hasattr(x, "value")]  # `p.data` holds none of its own
        self.leaves = [x for x in every if type(x) is Leaf]
        self.numbers = [x for x in every if type(x) is Numbers]

    def shaken(self, args: Any, kwargs: Any, phase: int) -> tuple[Any, Any]:
        """The arguments with other last bits; the cells as well."""
        for cell in self.cells:
            if cell.value.dtype in FLOATING:
                cell.value = _shaken(cell.value, phase)
        leaves, treedef = tree.flatten((args, kwargs))
        return tree.unflatten(treedef, [_shaken(x, phase) for x in leaves])  # type: ignore[no-any-return]

    def read(self) -> dict[Any, Any]:
        """Each value, by what names it in every copy of the process."""
        found: dict[Any, Any] = {}
        for cell in self.cells:
            found["cell", id(cell), cell.name or "a cell"] = _plain(cell.value)
        for leaf in self.leaves:
            owner = leaf.variable
            name = getattr(owner, "name", "") or "a tensor"
            found["gradient of", id(leaf), name] = None if leaf.grad is None else _plain(leaf.grad)
        for held in self.numbers:
            for key, x in dict.items(held):
                if isinstance(x, int | float):
                    found["number", id(held), repr(key)] = x
        return found


def _shaken(x: Any, phase: int) -> Any:
    if type(x) is not Tensor or x.dtype not in FLOATING:
        return x
    last = {"float64": 1e-15, "float32": 3e-7, "float16": 2e-3}.get(x.dtype.name, 2e-2)
    wave = np.cos(np.arange(x._a.size) * (1.3 + phase)).reshape(x._a.shape) * last + 1
    out = new_tensor(np.asarray(x._a * wave, x._a.dtype))
    out._node = x._node
    return out


def _plain(x: Any) -> Any:
    """A leaf of a result as what can be sent and compared."""
    if isinstance(x, Tensor):
        if x.level == CELL:
            x = x.read()
        if x.level > 0:
            return f"a value of {x.transform}"
        x = x.read() if x.level < 0 and hasattr(x, "read") else x
        return x.dtype.name, np.array(x._a) if isinstance(x._a, np.ndarray) else repr(x)
    if isinstance(x, bool | int | float | complex | str | bytes | type(None) | np.ndarray):
        return x
    return type(x).__name__


def described(out: Any, error: Exception | None, state: State) -> tuple[Any, Any, Any]:
    """The results of a call, or the name of its error; their structure; and the state after it."""
    if error is not None:
        return {("error", 0, ""): type(error).__name__}, "", state.read()
    leaves, treedef = tree.flatten(out)
    return (
        {("result", 0, str(i)): _plain(leaf) for i, leaf in enumerate(leaves)},
        str(treedef),
        state.read(),
    )


def outcome(function: Any, args: Any, kwargs: Any, state: State) -> tuple[Any, Any, Any]:
    """What a function does as it is."""
    try:
        out, error = function(*args, **kwargs), None
    except Exception as raised:
        out, error = None, raised
    return described(out, error, state)


def difference(here: tuple[Any, Any, Any], there: tuple[Any, Any, Any], shaken: Any = ()) -> str:
    """Where a compiled call and the eager one differ; "" if they do not.

    ``shaken`` are what the eager one gives for other last bits.
    """
    if here[1] != there[1] or here[0].keys() != there[0].keys():
        return f"it gives {here[1] or here[0]} compiled, and {there[1] or there[0]} eagerly"
    for part in (0, 2):
        for key, x in here[part].items():
            if key not in there[part]:
                continue
            y = there[part][key]
            more = max([slack(y, other[part].get(key)) for other in shaken or ()], default=0.0)
            if not alike(x, y, more):
                return f"{key[0]} {key[2]} is {two(x, y)}"
    return ""


def slack(y: Any, other: Any) -> float:
    """How much a value may differ since it does so by itself, for other last bits."""
    if not isinstance(y, tuple) or type(other) is not tuple or y[0] not in TOLERANCE:
        return 0.0
    a, b = (np.asarray(x[1], np.complex128 if y[0][0] == "c" else np.float64) for x in (y, other))
    if a.shape != b.shape or not a.size:
        return 0.0
    return 10 * float(np.abs(np.nan_to_num(a - b, nan=0, posinf=0, neginf=0)).max())


def alike(x: Any, y: Any, more: float = 0.0) -> bool:
    """Whether two values differ in rounding alone, and by no more than ``more`` besides."""
    if type(x) is not type(y):
        return False
    if isinstance(x, tuple):
        return x[0] == y[0] and _close(x[0], x[1], y[1], more)
    if isinstance(x, np.ndarray):
        return x.dtype == y.dtype and _close(x.dtype.name, x, y, more)
    if isinstance(x, float):
        return _close("float64", np.asarray(x), np.asarray(y), more)
    return bool(x == y)


def _close(dtype: str, x: Any, y: Any, more: float) -> bool:
    if not isinstance(x, np.ndarray) or x.shape != y.shape:
        return bool(isinstance(x, str) and x == y)
    rounding = TOLERANCE.get(dtype)
    if rounding is None:
        return bool(np.array_equal(x, y))
    if dtype in ("float16", "bfloat16"):
        x, y = x.astype(np.float64), y.astype(np.float64)
    finite = np.isfinite(y)
    if not np.array_equal(np.isfinite(x), finite):
        return False
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    x, y = x[finite], y[finite]
    return not x.size or bool(np.abs(x - y).max() <= rounding * np.abs(y).max() + more)


def two(x: Any, y: Any) -> str:
    """Two values in words: where they differ most, if they are arrays."""
    if isinstance(x, tuple) and isinstance(y, tuple):
        (kind, a), (other, b) = x, y
        if kind != other or getattr(a, "shape", None) != getattr(b, "shape", None):
            return f"{kind}{[*a.shape]} compiled, {other}{[*b.shape]} eagerly"
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        far = np.nan_to_num(np.abs(a.astype(wide) - b.astype(wide)), nan=np.inf)
        far = np.where((a == b) | ((a != a) & (b != b)), 0, far)
        place = np.unravel_index(int(far.argmax()), a.shape) if a.size else ()
        at = f" at {tuple(map(int, place))}" if place else ""
        return f"{a[place]!s} compiled, {b[place]!s} eagerly{at} ({kind}{[*a.shape]})"
    return f"{x!r:.60} compiled, {y!r:.60} eagerly"


# copies of the process ----------------------------------------------------------------------------


class Copy:
    """A copy of this process that does one thing, and sends what comes out.

    Args:
        does: what it does; it writes nothing to the terminal.
        waits: whether it waits until it is asked.
    """

    def __init__(self, does: Callable[[], Any], waits: bool = False) -> None:
        self.does, self.waits = does, waits

    def __enter__(self) -> Copy:
        self.reads, writes = os.pipe()
        asked, self.asks = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # other threads do not come along
            self.child = os.fork()
        if not self.child:
            try:
                self._be(asked, writes)
            finally:
                os._exit(0)
        os.close(writes)
        os.close(asked)
        return self

    def _be(self, asked: int, writes: int) -> None:
        global _inside
        _inside = True
        os.close(self.asks)
        if self.waits and not os.read(asked, 1):
            return
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        try:
            data = pickle.dumps((True, self.does()))
        except BaseException as error:
            data = pickle.dumps((False, f"{type(error).__name__}: {error}"))
        data = struct.pack("q", len(data)) + data
        while data:
            data = data[os.write(writes, data) :]

    def answer(self) -> Any:
        """What came out; None if nothing did."""
        if self.waits:
            os.write(self.asks, b"?")
        head = self._read(8)
        if len(head) < 8:
            return None
        done, found = pickle.loads(self._read(struct.unpack("q", head)[0]))
        return found if done else None

    def _read(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            if not select.select([self.reads], [], [], PATIENCE)[0]:
                return b""
            part = os.read(self.reads, min(count - len(parts), 1 << 20))
            if not part:
                return b""
            parts += part
        return parts

    def __exit__(self, *error: object) -> None:
        os.close(self.reads)
        os.close(self.asks)
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
