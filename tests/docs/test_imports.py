"""The house as its imports draw it: arrows run one way, and no circle is longer than three files.

The order of the rooms is that of ``fx/README.md``. What a function imports when it runs is a door:
it loads late what few need, and the arrows that no door may have either are named here.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ("transforms", "nn", "optim", "data")  # folders at the root, links in fx/

# from the ground up; a file imports from its own room and from those before it
ROOMS = (
    "core", "prims", "graph", "compiler", "backends", "ops", "fft", "linalg", "signal",
    "special", "random", "writing", "transforms", "autograd", "fx", "lax", "ndimage",
    "interpolate", "optimize", "stats", "distributed", "nn",
    "optim", "data", "io", "amp", "torch", "testing", "examples",
)  # fmt: skip
APART = {
    "fx": "fx",
    "fx.callbacks": "ops",
    "fx.debug": "ops",
    "fx.flatten_util": "ops",
    "fx.jax_names": "ops",
    "fx.ray": "distributed",
    "fx.run": "distributed",
    **{
        f"fx.distributed.checkpoint{name}": "io"
        for name in ("", ".entries", ".loading", ".manifest", ".plan", ".saving")
    },
    **{
        f"fx.distributed.pipelining.{name}": "optim"
        for name in ("running", "schedules", "splitting", "stage")
    },
}  # files that lie beside the core and stand above it
BACKENDS_ARE_KNOWN_TO = {
    "fx",  # the number of threads
    "fx.torch._settings",
    "fx.data.loading.threaded",
    "fx.testing.native",
    "fx.optim._fused",
    "fx.transforms.jitting.compiled",
    "fx.transforms.jitting.short.plan",
    "fx.transforms.jitting.short.outputs",
}
CIRCLE = 3
CIRCLE_AT_ANY_TIME = 9  # what functions import when they run counted in: ``fx.writing``
EARLY, ALL = slice(0, 1), slice(0, 2)


@cache
def files() -> dict[str, Path]:
    """Every module by its name."""
    found = {}
    for folder in ("fx", *TOP):
        for path in (ROOT / folder).rglob("*.py"):
            parts = [*path.relative_to(ROOT).with_suffix("").parts]
            if parts[0] == "fx" and parts[1] in TOP:
                continue
            parts = parts if parts[0] == "fx" else ["fx", *parts]
            found[".".join(parts if parts[-1] != "__init__" else parts[:-1])] = path
    return found


@cache
def imports(name: str) -> tuple[frozenset[str], frozenset[str]]:
    """The modules that a module imports, and those that its functions do."""
    early: set[str] = set()
    late: set[str] = set()

    def visit(node: ast.AST, into: set[str]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                into.update(a.name for a in child.names)
            if isinstance(child, ast.ImportFrom):
                assert not child.level and child.module, f"{name} imports by a relative name"
                whole = [f"{child.module}.{a.name}" for a in child.names]
                into.update(m if m in files() else child.module for m in whole)
            visit(child, late if isinstance(child, ast.FunctionDef) else into)

    visit(ast.parse(files()[name].read_text()), early)
    return frozenset(early & files().keys() - {name}), frozenset(late & files().keys() - {name})


def room(name: str) -> str:
    """The room of a module."""
    parts = name.split(".")
    return APART.get(name) or (parts[1] if parts[1] in ROOMS else "core")


def arrows(which: slice) -> Iterator[tuple[str, str]]:
    """Who imports whom: early, or at any time."""
    for name in files():
        for found in imports(name)[which]:
            for other in found:
                yield name, other


def test_arrows_run_one_way():
    order = {r: i for i, r in enumerate(ROOMS)}
    assert not [f"{a} -> {b}" for a, b in arrows(EARLY) if order[room(a)] < order[room(b)]]


def test_no_circle_is_long():
    long = [sorted(c) for c in circles({n: imports(n)[0] for n in files()}) if len(c) > CIRCLE]
    assert not long
    both = {n: imports(n)[0] | imports(n)[1] for n in files()}
    assert not [sorted(c) for c in circles(both) if len(c) > CIRCLE_AT_ANY_TIME]


def test_who_knows_the_backends():
    """Through a door or not: all others take kernels by the hook."""
    known = {a for a, b in arrows(ALL) if room(b) == "backends" and room(a) != "backends"}
    assert known == BACKENDS_ARE_KNOWN_TO


def test_what_the_ground_floor_does_not_know_at_any_time():
    below = {"prims": {"core", "prims"}, "compiler": {"core", "prims", "graph", "compiler"}}
    assert not [f"{a} -> {b}" for a, b in arrows(ALL) if room(b) not in below.get(room(a), ROOMS)]


def circles(graph: dict[str, frozenset[str]]) -> list[list[str]]:
    """The strongly connected components of several modules (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def go(v: str) -> None:
        number[v] = lowest[v] = len(number)
        stack.append(v)
        for w in graph[v]:
            if w not in number:
                go(w)
            if w in stack:
                lowest[v] = min(lowest[v], lowest[w])
        if lowest[v] == number[v]:
            at = stack.index(v)
            found.append(stack[at:])
            del stack[at:]

    for v in graph:
        if v not in number:
            go(v)
    return [c for c in found if len(c) > 1]
