"""Calls of formulas, written out for so many arrays, numbers and results.

A loop over two arguments costs half a microsecond, as much as all else that a kernel of a small
array does. For one array, one number ``p`` and one result a call of ``Along`` reads

    def call(x0, *, axes, keepdims=True, p):
        dtype = x0.dtype
        way = ways.get((x0.shape, axes, keepdims, dtype))
        if way is None: way = plan(x0.shape, axes, keepdims, dtype)
        run, specs, (g0,), sizes = way
        if run is None: return None
        (s0,) = specs
        if type(p) is not float:
            if type(p) is not int: return None
            p = float(p)
        o0 = any_size.empty(s0)
        run([1, 0, x0 if x0.flags.num & 0x101 == 0x101 else copied(x0), p, o0, *sizes])
        return o0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from fx.backends.cpu._arrays import copied
from fx.backends.cpu.llvm import any_size

DENSE = 0x101  # NumPy's flags of what is C-contiguous and aligned


def elements(ways: Any, plan: Any, broadcast: Any, count: int, words: Sequence[str]) -> Any:
    """``f(*arrays, **numbers)`` of ``count`` arrays, as ``formulas.Elements`` says.

    Args:
        ways: what runs on dense arrays of one shape, or of no axes, by their shapes and dtypes.
        plan: makes an entry of it, of the tuple of the arrays.
        broadcast: does the same of others, of that tuple and the words that run.
    """
    return _elements(count, tuple(words))(ways, plan, broadcast, any_size)


@cache
def _elements(count: int, words: tuple[str, ...]) -> Any:
    xs = _names("x", count)
    given = ", ".join([*xs, *words])
    return _made(
        "ways, plan, broadcast, any_size",
        f"{', '.join(xs)}{_by_word(words)}",
        *_numbers(words),
        *_way(xs),
        "  if run is None: return None",
        "  out = any_size.empty(spec)",
        f"  run([1, 0, {given}, out, *sizes])",
        "  return out",
        f"return broadcast(({', '.join(xs)},), [1, 0, {given}])",
    )


def elements_into(ways: Any, plan: Any, count: int, words: Sequence[str]) -> Any:
    """``f(*arrays, out, **numbers)``: the same, written into an array, which may be one of these.

    None where it cannot be, else that array.
    """
    return _elements_into(count, tuple(words))(ways, plan)


@cache
def _elements_into(count: int, words: tuple[str, ...]) -> Any:
    xs = _names("x", count)
    given = ", ".join([*xs, *words])
    return _made(
        "ways, plan",
        f"{', '.join(xs)}, out{_by_word(words)}",
        *_numbers(words),
        *_way(xs),
        "  dense = out.flags",
        f"  if run is None or dense.num & {DENSE} != {DENSE} or not dense.writeable: return None",
        "  if out.shape != shape0 or out.dtype is not spec[0].dtype: return None",
        f"  run([1, 0, {given}, out, *sizes])",
        "  return out",
        "return None",
    )


def _way(xs: Sequence[str]) -> list[str]:
    """What runs on dense arrays of one shape, or of no axes; what comes behind is of these."""
    key = "".join([f"shape{x[1:]}, {x}.dtype, " for x in xs])
    alike = [f"{x}.flags.num & {DENSE} == {DENSE}" for x in xs]
    alike += [f"(shape{x[1:]} == shape0 or not shape{x[1:]})" for x in xs[1:]]
    return [
        *[f"shape{x[1:]} = {x}.shape" for x in xs],
        f"if {' and '.join(alike)}:",
        f"  way = ways.get(({key}))",
        f"  if way is None: way = plan(({', '.join(xs)},))",
        "  run, spec, sizes = way",
    ]


def along(ways: Any, plan: Any, given: str, gives: str, words: Sequence[str]) -> Any:
    """``f(*arrays, axes, keepdims=True, **numbers)``, as ``formulas.Along`` says.

    Args:
        ways: what runs, by shape, axes, keepdims and dtype.
        plan: makes an entry of it.
        given, gives: the patterns of arguments and results.
        words: the names of the numbers.
    """
    return _along(given, len(gives), tuple(words))(ways, plan, any_size, copied)


@cache
def _along(given: str, results: int, words: tuple[str, ...]) -> Any:
    xs, large = _names("x", len(given)), f"x{given.index('x')}"
    of = f"{large}.shape, axes, keepdims, dtype"
    others = [x for x in xs if x != large]
    return _made(
        "ways, plan, any_size, copied",
        f"{', '.join(xs)}, *, axes, keepdims=True{''.join([f', {w}' for w in words])}",
        f"dtype = {large}.dtype",
        f"way = ways.get(({of}))",
        f"if way is None: way = plan({of})",
        f"run, specs, {_unpacked('g', len(xs))}, sizes = way",
        "if run is None: return None",
        f"{_unpacked('s', results)} = specs",
        *[f"if {x}.shape != g{x[1:]} or {x}.dtype is not dtype: return None" for x in others],
        *_numbers(words),
        *_run(xs, words, results),
    )


def rows(ways: Any, plan: Any, fixed: Sequence[Any], large: int, numbers: int) -> Any:
    """``f(arrays, sizes, results, *numbers)``, as ``formulas.Rows`` says.

    Args:
        ways: what runs, by dtype, sizes and the shapes of the results.
        plan: makes an entry of it, of an array and these.
        fixed: the dtype of each array, None that of the one called ``large``.
        numbers: how many there are.
    """
    told = tuple([dtype is not None for dtype in fixed])
    (dtype,) = {d for d in fixed if d is not None} or {None}
    return _rows(told, large, numbers)(ways, plan, dtype, any_size, copied)


@cache
def _rows(told: tuple[bool, ...], large: int, numbers: int) -> Any:
    xs, words = _names("x", len(told)), _names("p", numbers)
    dtypes = ["told" if fixed else "dtype" for fixed in told]
    return _made(
        "ways, plan, told, any_size, copied",
        f"arrays, sizes, results{''.join([f', {w}' for w in words])}",
        f"{', '.join(xs)}, = arrays",
        f"dtype = x{large}.dtype",
        "way = ways.get((dtype, sizes, results))",
        f"if way is None: way = plan(x{large}, sizes, results)",
        "run, specs, sizes = way",
        "if run is None: return None",
        *[f"if {x}.dtype is not {dtype}: return None" for x, dtype in zip(xs, dtypes)],
        "if len(specs) == 1:",
        "  s0, = specs",
        *[f"  {line}" for line in _run(xs, [f"float({w})" for w in words], 1)],
        "outs = [*map(any_size.empty, specs)]",
        f"run([1, 0, {_all_dense(xs)}, {''.join([f'float({w}), ' for w in words])}*outs, *sizes])",
        "return outs",
    )


def _run(xs: Sequence[str], words: Sequence[str], results: int) -> list[str]:
    """The lines that run a kernel on arrays, numbers and new results."""
    outs = _names("o", results)
    found = outs[0] if results == 1 else "[" + ", ".join(outs) + "]"
    return [
        *[f"{o} = any_size.empty(s{o[1:]})" for o in outs],
        f"run([1, 0, {_all_dense(xs)}, {''.join([f'{w}, ' for w in [*words, *outs]])}*sizes])",
        f"return {found}",
    ]


def _all_dense(xs: Sequence[str]) -> str:
    return ", ".join([f"{x} if {x}.flags.num & {DENSE} == {DENSE} else copied({x})" for x in xs])


def _numbers(words: Sequence[str]) -> list[str]:
    """Python's numbers as floats; None is returned where one is something else."""
    return [
        line
        for w in words
        for line in (
            f"if type({w}) is not float:",
            f"  if type({w}) is not int: return None",
            f"  {w} = float({w})",
        )
    ]


def _names(letter: str, count: int) -> list[str]:
    return [f"{letter}{i}" for i in range(count)]


def _unpacked(letter: str, count: int) -> str:
    return f"({', '.join(_names(letter, count))},)"


def _by_word(words: Sequence[str]) -> str:
    return f", *, {', '.join(words)}" if words else ""


def _made(given: str, arguments: str, *body: str) -> Callable[..., Any]:
    """What makes the function of these arguments and lines, of what it is given."""
    lines = [f"def make({given}):", f" def call({arguments}):", *[f"  {s}" for s in body]]
    space: dict[str, Any] = {"__name__": __name__}
    source = "\n".join([*lines, " return call"])
    exec(compile(source, __file__, "exec"), space)  # code of fx's, not of the user's
    return space["make"]  # type: ignore[no-any-return]
