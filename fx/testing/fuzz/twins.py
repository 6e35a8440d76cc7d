"""One source text under torch and under ``fx.torch``, statement by statement, mostly in float64.

``agree(text)`` runs the statements of a module in two namespaces. In both ``torch`` is imported,
``jit`` is ``fx.jit`` or nothing, and ``np`` is NumPy. After each statement all tensors that the
names of the module lead to (through lists, tuples, dicts and attributes of its own objects) have
the same shapes, dtypes, values, ``requires_grad``, ``is_leaf`` and ``grad``.

What torch saves for its gradients is copied at once, so that each gradient of torch's is the one of
the values that were used, also where it would say "modified by an inplace operation". What NumPy
writes is there at once in both, also for a pullback, and the copies follow it (``saved.py``).
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import linecache
import math
import random
import re
import textwrap
import types
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import numpy as np

import fx
from fx.errors import WriteError
from fx.testing.fuzz import rounding
from fx.testing.fuzz.outcomes import Found, Invalid
from fx.testing.fuzz.saved import Saved, values_of
from fx.testing.fuzz.single_views import single_views

# of the largest value of the program, in float64 and where float32 takes part; what is wrong is
# wrong by far
RELATIVE, ROUGH = 1e-8, 3e-5
LARGE = 1e9  # beyond, a program says nothing any more
NAMED = (RuntimeWarning, TypeError, RuntimeError, NotImplementedError, ValueError, IndexError)
# what torch refuses and fx may do: operands that share memory, views of unclear history or of none,
# graphs that are freed, leaves that got a history since, no gradients at all
MAY = (
    "Please clone() the tensor before", "Index put requires the source and destination dtypes",
    "view was created in no_grad mode", "which was created in no_grad mode",
    "view was created in inference mode", "which was created in inference mode",
    "DifferentiableViewMeta", "Can't detach views", "graph a second time", "nested_tensorlist",
    "view size is not compatible", "resize storage that is not resizable",
    "leaf variable has been moved", "nference tensor",
)  # fmt: skip
LEAF = "a leaf Variable that requires grad"
LATE = (
    "NoneType", "positional argument", "object has no attribute '_", "not callable",
    "maximum recursion", "a compiled graph of",
)  # fmt: skip
# a statement that may have done a part of what it does
PARTS = re.compile(r"(?<![.\w])f\d+\(|\.backward\(|(uniform|normal|bernoulli)_\(")
# `x[i] += v`, which is two: torch may refuse to set the item when it has added
AUGMENTED = re.compile(r"\][ ]*(\*\*|//|<<|>>|[-+*/%&|^@])=(?!=)")
# what torch refuses when it has done a part
HALF = re.compile(
    r"out of (bounds|range)|not resizable|same number of dimensions|Size does not match at dim"
)
_relative = RELATIVE  # of the program that runs
refusals: Counter[str] = Counter()  # what fx refused and torch did not, by message


def missing() -> bool:
    """Whether torch, the oracle, is not there."""
    return importlib.util.find_spec("torch") is None


def agree(text: str, every: int = 1, first: bool | None = None, single: bool = False) -> None:
    """Run a text under both libraries.

    Args:
        text: a module without imports; ``torch``, ``jit``, ``np`` and ``random`` are there.
        every: tensors are compared after each so many statements, and after the last. To look at
            a tensor may bring it up to date; so not all programs are looked at all the time.
        first: whether the process is as if it had not written, so that the views of the program are
            found at its first write; None lets the text decide.
        single: whether the default dtype is float32.

    Raises:
        Found: at the first difference that is not a named error of fx.
        Invalid: if the program fails under both, fx refuses it, or torch is not installed.
    """
    if missing():
        raise Invalid("torch is not installed")
    text = textwrap.dedent(text).strip() + "\n"
    statements = _compiled(text)
    pair = _namespaces()
    anew = first or (first is None and len(text) % 4 == 0)
    scale, draws = 1.0, "random." in text
    with (
        _as_if_nothing_was_written() if anew else contextlib.nullcontext(),
        _both(single, single or ".float()" in text) as saved,
    ):
        for n, (code, line, plain) in enumerate(statements):
            before = dict(pair[0])
            with saved.following(_source(text, statements, n)):
                outcomes = [_run(code, names, n if draws else None) for names in pair]
            _part(pair[0])
            where = f"line {line}, {_shown(text, line)}"
            if outcomes[1] is None and LEAF in str(outcomes[0]):
                if not plain or ".data" in text or ".detach" in text:  # which write leaves too
                    raise Invalid("torch refuses a leaf somewhere inside")
                _same_leaves(before, *pair, scale, where)
            _same_outcome(*outcomes, where)
            if (n + 1) % every and n + 1 < len(statements) and not outcomes[0]:
                continue
            try:
                scale = _same_tensors(*pair, scale, f"after {where}")
            except Found as error:
                refused = str(outcomes[0])
                whole = plain and HALF.search(refused) is None
                whole = whole and AUGMENTED.search(_shown(text, line)) is None
                whole = whole and not any(words in refused for words in MAY)
                alike = whole and (LEAF in str(outcomes[0])) == (LEAF in str(outcomes[1]))
                if outcomes[0] is None or (alike and _line(outcomes[0]) == _line(outcomes[1])):
                    _check_size(pair[0])
                    if _rounding_decides(text, statements[: n + 1], scale):
                        raise Invalid("rounding decides what it gives") from error
                    raise
                raise Invalid(f"{where}: both refuse, perhaps at different places") from error


@contextlib.contextmanager
def _as_if_nothing_was_written() -> Iterator[None]:
    """The program's first write looks for views in what the program made, not in all there is."""
    from fx.writing import finding, noting

    noting.forget()
    gc.collect()
    gc.freeze()
    everything, finding.everything = finding.everything, gc.get_objects
    try:
        yield
    finally:
        finding.everything = everything


def _shown(text: str, line: int) -> str:
    return repr(text.split("\n")[line - 1].strip())


def _source(text: str, statements: list[Any], n: int) -> str:
    last = statements[n + 1][1] - 1 if n + 1 < len(statements) else None
    return "\n".join(text.split("\n")[statements[n][1] - 1 : last])


def _compiled(text: str) -> list[tuple[types.CodeType, int, bool]]:
    """Each statement of the module: its code, its line, and whether it is whole or not at all."""
    name = f"<twins {hash(text) & 0xFFFFFFFF:08x}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    lines, out, start = text.split("\n"), [], 0
    for end in range(1, len(lines)):
        begins = not lines[end].startswith((" ", "else", "elif", "except", "finally"))
        if begins and not lines[end - 1].startswith("@"):
            body = "\n".join(lines[start:end])
            plain = end == start + 1 and PARTS.search(body) is None
            out.append((compile("\n" * start + body, name, "exec"), start + 1, plain))
            start = end
    return out


def _namespaces() -> tuple[dict[str, Any], dict[str, Any]]:
    """The namespaces of the two, torch's first."""
    import torch

    import fx.torch

    common = {"np": np, "random": random, "math": math, "deque": deque, "Counter": Counter}
    theirs = {"__name__": "program", **common, "torch": torch, "nn": torch.nn, "jit": lambda f: f}
    ours = {"__name__": "program", **common, "torch": fx.torch, "nn": fx.torch.nn, "jit": fx.jit}
    return theirs, ours


def _run(code: types.CodeType, names: dict[str, Any], seed: int | None) -> Exception | None:
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed)
    try:
        exec(code, names)
    except Exception as error:  # a name is not there if both refused the line that binds it
        return error
    return None


def _rounding_decides(text: str, statements: list[Any], scale: float) -> bool:
    """Whether numbers that are nearly the same give something else under torch."""

    def run(names: dict[str, Any]) -> None:
        for n, (code, _, _) in enumerate(statements):
            _run(code, names, n if "random." in text else None)
            _part(names)

    return rounding.decides(run, _namespaces()[0], _relative * scale)


def _part(names: dict[str, Any]) -> None:
    """Let torch's leaves have gradients of their own.

    Where one cotangent reaches two of them unchanged, torch gives both the same memory, and what
    is added to one gradient later is in the other too.
    """
    import torch

    known = set()
    for x in names.values():
        if not isinstance(x, torch.Tensor) or x._is_view() or not x.is_leaf:
            continue
        if x.grad is not None:
            if x.grad.data_ptr() in known:
                x.grad = x.grad.clone()
            known.add(x.grad.data_ptr())


def _line(error: Exception | None) -> int | None:
    """The line of the program that an error leaves last."""
    trace, line = error.__traceback__ if error is not None else None, None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith("<twins"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


# the two libraries ------------------------------------------------------------------------------


@contextlib.contextmanager
def _both(single: bool = False, rough: bool = False) -> Iterator[Saved]:
    """Both libraries compute in one dtype, and torch's gradients are those of the values of then.

    Args:
        single: whether that is float32, else float64.
        rough: whether digits of float32 are all that is compared.
    """
    import torch

    import fx.torch

    global _relative
    _relative = ROUGH if rough else RELATIVE
    dtype = "float32" if single else "float64"
    before = torch.get_default_dtype(), fx.torch.get_default_dtype()
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.ExitStack() as stack:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", ".* keeps the values and not their history")  # of a buffer
        torch.set_default_dtype(getattr(torch, dtype))
        fx.torch.set_default_dtype(getattr(fx.torch, dtype))
        saved = Saved()
        stack.enter_context(torch.autograd.graph.saved_tensors_hooks(saved.copied, values_of))
        stack.enter_context(single_views())
        try:
            yield saved
        finally:
            torch.set_grad_enabled(True)
            fx.torch.set_grad_enabled(True)
            torch.set_default_dtype(before[0])
            fx.torch.set_default_dtype(before[1])


# outcomes ---------------------------------------------------------------------------------------


def _same_outcome(theirs: Exception | None, ours: Exception | None, what: str) -> None:
    """Compare the errors of a statement.

    Raises:
        Found: if fx takes what torch refuses, or fails without a named error.
        Invalid: if fx refuses what torch does.
    """
    if ours is None and theirs is None:
        return
    if ours is None:
        if any(words in str(theirs) for words in MAY):
            raise Invalid(str(theirs))
        raise Found(f"{what}: torch raises {type(theirs).__name__}: {theirs}; fx raises nothing")
    said = str(ours)
    if type(ours) is not type(theirs) and _unnamed(ours):
        raise Found(f"{what}: fx raises {type(ours).__name__}: {said}") from ours
    late = isinstance(theirs, TypeError) and "item assignment" in str(theirs)  # of a tuple, written
    if theirs is None or (late and isinstance(ours, WriteError)):
        refusals[f"{type(ours).__name__}: {said}"] += 1
        raise Invalid(f"{what}: fx refuses: {said}")


def _unnamed(error: Exception) -> bool:
    """Whether an error was not raised on purpose."""
    said = str(error)
    return not isinstance(error, NAMED) or not said or any(words in said for words in LATE)


def _same_tensors(theirs: dict[str, Any], ours: dict[str, Any], scale: float, what: str) -> float:
    """Compare all tensors that the names lead to; the largest magnitude so far."""
    for name in theirs:
        if not name.startswith("_"):
            scale = _same(theirs[name], ours.get(name), name, scale, what)
    if not scale < LARGE:
        raise Invalid(_GROWS)
    return scale


_GROWS = "numbers grow without end"


def _check_size(names: dict[str, Any]) -> None:
    """Whether the numbers of torch still say something.

    Raises:
        Invalid: if one is so large that what is computed of it is noise.
    """
    import torch

    for x in names.values():
        if isinstance(x, torch.Tensor) and bool((x.detach().double().abs() >= LARGE).any()):
            raise Invalid(_GROWS)


def _same_leaves(
    before: dict[str, Any], theirs: dict[str, Any], ours: dict[str, Any], scale: float, what: str
) -> None:
    """Only if torch's refusal to write into a leaf was for a leaf: it says it of some views too.

    Raises:
        Found: if a leaf was written into.
        Invalid: else.
    """
    import torch

    for name, x in theirs.items():
        if not isinstance(x, torch.Tensor) or before.get(name) is not x:
            continue
        if not x._is_view() and x.is_leaf and x.requires_grad:
            _same(x, ours.get(name), name, scale, f"after {what}, which torch refuses")
    raise Invalid("torch takes a view for a leaf")


def _same(theirs: Any, ours: Any, path: str, scale: float, what: str) -> float:
    import torch

    if isinstance(theirs, torch.Tensor):
        try:
            return _same_tensor(theirs, ours, path, scale, what)
        except RuntimeError as error:
            if "A view was created in" in str(error):  # no_grad or inference mode
                return scale  # and something that shares its memory was written into since then
            if isinstance(error, WriteError):  # it is said when a tensor is looked at
                refusals[f"WriteError: {error}"] += 1
                raise Invalid(f"{what}: fx refuses: {error}") from error
            raise
    if isinstance(theirs, np.ndarray):
        return _same_values(theirs, ours, path, scale, what)
    if isinstance(theirs, list | tuple | dict | deque) and type(theirs) is not type(ours):
        raise Found(f"{what}: {path} is {ours!r:.100}, expected {theirs!r:.100}")
    if isinstance(theirs, list | tuple | deque):
        if len(theirs) != len(ours):
            raise Found(f"{what}: {path} has {len(ours)} items, expected {len(theirs)}")
        for i, x in enumerate(theirs):
            scale = _same(x, ours[i], f"{path}[{i}]", scale, what)
    elif isinstance(theirs, dict):
        for key, x in theirs.items():
            scale = _same(x, ours[key], f"{path}[{key!r}]", scale, what)
    elif isinstance(theirs, bool | int | float | str):
        near = isinstance(theirs, float) and abs(theirs - ours) <= _relative * scale
        if type(theirs) is not type(ours) or not (theirs == ours or near):
            raise Found(f"{what}: {path} is {ours!r:.100}, expected {theirs!r:.100}")
    elif isinstance(theirs, torch.nn.Module):
        for key, x in (*theirs.named_parameters(), *theirs.named_buffers()):
            scale = _same(x, getattr(ours, key), f"{path}.{key}", scale, what)
    elif type(theirs).__module__ == "program" and not isinstance(theirs, type):
        for key, x in vars(theirs).items():
            scale = _same(x, vars(ours)[key], f"{path}.{key}", scale, what)
    return scale


def _same_tensor(theirs: Any, ours: Any, path: str, scale: float, what: str) -> float:
    if not isinstance(ours, fx.Tensor):
        raise Found(f"{what}: {path} is a {type(ours).__name__}, expected a tensor")
    shape, dtype = tuple(theirs.shape), str(theirs.dtype)[6:]
    if tuple(ours.shape) != shape or str(ours.dtype).removeprefix("torch.") != dtype:
        got = f"{str(ours.dtype).removeprefix('torch.')}{tuple(ours.shape)}"
        raise Found(f"{what}: {path} is {got}, expected {dtype}{shape}")
    plain = theirs.detach().resolve_conj().resolve_neg()
    scale = _same_values(plain.numpy(), np.asarray(ours._a), path, scale, what)
    if theirs._is_view() and _unclear(theirs):
        return scale
    if theirs.requires_grad != ours.requires_grad:
        raise Found(f"{what}: {path}.requires_grad is {ours.requires_grad}")
    if theirs.is_leaf != ours.is_leaf:
        raise Found(f"{what}: {path}.is_leaf is {ours.is_leaf}")
    if theirs.is_leaf and theirs.requires_grad:
        grad = theirs.grad
        if (grad is None) != (ours.grad is None):
            raise Found(f"{what}: {path}.grad is {ours.grad}, expected {grad}")
        if grad is not None:
            values = grad.detach().resolve_conj().numpy(), np.asarray(ours.grad._a)
            _same_values(*values, f"{path}.grad", scale, what)
    return scale


def _unclear(theirs: Any) -> bool:
    """Whether a view of torch's says nothing by its flags.

    One that was made without recording requires grad as its base does, yet gives it none.
    """
    return bool(theirs.is_leaf and theirs.requires_grad and theirs._base.requires_grad)


def _same_values(theirs: Any, ours: Any, path: str, scale: float, what: str) -> float:
    if theirs.tobytes() == ours.tobytes():  # mostly
        size = float(np.abs(theirs).max(initial=0.0)) if theirs.dtype.kind in "fc" else 0.0
        return max(scale, size) if math.isfinite(size) else scale
    if theirs.shape != ours.shape:
        raise Found(f"{what}: {path} has shape {ours.shape}, expected {theirs.shape}")
    if theirs.dtype.kind in "fc":
        size = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0))
        scale = max(scale, size)
        close = np.allclose(ours, theirs, rtol=_relative, atol=_relative * scale, equal_nan=True)
    else:
        close = bool((theirs == ours).all())
    if not close:
        raise Found(f"{what}: {path} is {ours.tolist()!r:.200}, expected {theirs.tolist()!r:.200}")
    return scale
