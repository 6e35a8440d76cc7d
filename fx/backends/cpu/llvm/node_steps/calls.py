"""Steps that call a kernel whose extents are arguments: of ``irregular``, or of ``any_size``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu import cumulative, draws, sort
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.ir import Frame, f64, i64, pointer
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, around, has_elements
from fx.compiler.extents import Sizes
from fx.compiler.step import Step
from fx.dtypes import COMPLEX, float64
from fx.graph.ir import Node
from fx.prims.random import KEY_WORDS
from fx.spec import TensorSpec

Kernel = tuple[str, str, str]  # group, name, dtype


def call(frame: Frame, kernel: Kernel, words: Sequence[Any]) -> None:
    """Do the tasks by a kernel; its words are addresses, ints, floats or None."""
    b = frame.b
    table = b.alloca(ir.ArrayType(i64, len(words)))
    for i, word in enumerate(words):
        if word is None or isinstance(word, int):
            word = frame.number(0 if not word else 1 if word is True else word)
        else:
            if isinstance(word, float):
                number = b.alloca(f64)
                b.store(ir.Constant(f64, word), number)
                word = number
            word = b.ptrtoint(word, i64)
        b.store(word, b.gep(table, [i64(0), i64(i)]))
    function = externals.declare(b.module, ".".join(("fx", *kernel)))
    b.call(function, [table, frame.begin, frame.end, ir.Constant(pointer, None)])
    b.ret_void()


def first(node: Node, sizes: Sizes | None = None) -> Step | None:
    """The places of elements in order: argsort, and the first of them."""
    x, params = node.inputs[0].spec, node.params
    word = sort.WORDS.get(x.dtype)
    if word is None or not has_elements(node):
        return None
    char, kind = word
    before, n, after = around(x.shape, params["axis"])
    k = params.get("k", n)
    largest = params["largest" if "k" in params else "descending"]
    lines, words = before * after, sort.work_words(n, k)
    cost = lines * sort.price(n, k, x.dtype.itemsize)
    if sizes is not None:
        before, n, after = around(sizes.shape(x.shape), params["axis"])
        k, lines, words = sizes.extent(k), before * after, sort.most_words(n)

    def body(frame: Frame) -> None:
        (source,), (places,) = frame.reads, frame.writes
        call(frame, ("order", "first", char), [
            source, places, places, n, k, after, kind, largest, False, limits.RANKED_ROW,
            frame.scratch, 0, lines,
        ])  # fmt: skip

    return SpecialStep(node, body, tasks=lines, cost=cost, scratch=8 * words, sizes=sizes)


def ranked(node: Node) -> Step | None:
    """The places of elements that have some ranks in the order."""
    x, ranks = (v.spec for v in node.inputs)
    word = sort.WORDS.get(x.dtype)
    if word is None or not has_elements(node):
        return None
    char, kind = word
    before, n, after = around(x.shape, node.params["axis"])
    m, lines = ranks.shape[node.params["axis"]], before * after

    def body(frame: Frame) -> None:
        (source, places_of), (places,) = frame.reads, frame.writes
        call(frame, ("order", "ranked", char), [
            source, places_of, places, places, n, m, after, kind, sort.LOST[node.params["lost"]],
            False, limits.RANKED_FEW, frame.scratch, 0, lines,
        ])  # fmt: skip

    cost = lines * sort.ranked_price(n, m, x.dtype.itemsize)
    return SpecialStep(node, body, tasks=lines, cost=cost, scratch=8 * sort.ranked_words(n, m))


def searchsorted(node: Node, sizes: Sizes | None = None) -> Step | None:
    """Where values go in their sorted sequences."""
    sequence, values = (v.spec for v in node.inputs)
    word = sort.WORDS.get(values.dtype)
    if word is None or not has_elements(node):
        return None
    char, kind = word
    n, rows = sequence.shape[-1], sequence.ndim > 1
    m, tasks = values.shape[-1] if rows else values.size, values.size
    cost = values.size * sort.search_price(n)
    if sizes is not None:
        n, lead = sizes.extent(n), sizes.shape(values.shape)
        tasks = math.prod(lead)
        m = lead[-1] if rows else tasks

    def body(frame: Frame) -> None:
        words = [*frame.reads, *frame.writes, n, m, rows, kind, node.params["side"] == "right"]
        call(frame, ("order", "search", char), words)

    return SpecialStep(node, body, tasks=tasks, cost=cost, sizes=sizes)


def scan(node: Node, sizes: Sizes | None = None) -> Step | None:
    """A cumulative operation: a kernel of ``any_size/scans``."""
    x, axis, name = node.inputs[0].spec, node.params["axis"], node.primitive.name
    if not has_elements(node) or x.dtype in COMPLEX:
        return None
    shape = x.shape if sizes is None else sizes.shape(x.shape)
    _, n, after = around(shape, axis)

    def body(frame: Frame) -> None:
        words = [*frame.reads, *frame.writes, n, after, node.params["reverse"]]
        call(frame, ("scans", name, x.dtype.name), words)

    cost = x.size * cumulative.PRICE[name]
    return SpecialStep(node, body, tasks=cumulative.tasks_of(shape, axis), cost=cost, sizes=sizes)


# draws ------------------------------------------------------------------------------------------


def _drawing(
    node: Node, name: str, dtype: str, price: float, *more: Any, sizes: Sizes | None = None
) -> Step | None:
    """A kernel of ``any_size/draws``: keys (*B, 6) -> (*B, *shape)."""
    if not has_elements(node):
        return None
    keys, shape = node.inputs[0].spec.shape[:-1], node.params["shape"]
    cost = math.prod(keys) * (30.0 + math.prod(shape) * price)
    if sizes is not None:
        keys, shape = sizes.shape(keys), sizes.shape(shape)
    rows, n = math.prod(keys), math.prod(shape)

    def body(frame: Frame) -> None:
        keys, *parameters = frame.reads
        words = [keys, *frame.writes, n, None, *parameters, *more]
        call(frame, ("draws", name, dtype), words)

    pieces = -(-n // limits.DRAW_PIECE)
    return SpecialStep(node, body, tasks=rows * pieces, cost=cost, sizes=sizes)


def random_bits(node: Node, sizes: Sizes | None = None) -> Step | None:
    """uint32 words."""
    return _drawing(node, "bits", "uint32", draws.PRICE["bits"], sizes=sizes)


def random_draw(node: Node, sizes: Sizes | None = None) -> Step | None:
    """Samples of a standard distribution."""
    family, dtype = node.params["family"], node.params["dtype"]
    return _drawing(node, family, dtype.name, draws.PRICE[family], sizes=sizes)


def random_truncated_normal(node: Node) -> Step | None:
    """Samples of the normal distribution between bounds."""
    dtype = node.params["dtype"]
    more = draws.truncation(node.params["lower"], node.params["upper"], dtype)
    return _drawing(node, "truncated", dtype.name, draws.PRICE["truncated"], *more)


def random_below(node: Node) -> Step | None:
    """Whole numbers in [0, span), where 0 stands for 2 ** 64."""
    step = _step_of(node.inputs[1].spec, node.out.spec.shape)
    name = f"below{node.params['planes']}"
    return None if step is None else _drawing(node, name, "uint64", draws.PRICE[name], step)


def _step_of(parameter: TensorSpec, full: tuple[int, ...]) -> int | None:
    """From one parameter to that of the next element; None where they have to be broadcast."""
    if parameter.size == 1:
        return 0
    return 1 if parameter.shape == full else None


def _rejection(
    node: Node, group: str, name: str, *more: int, width: int = 1,
    wholes: Sequence[tuple[int, ...]] = (),
) -> Step | None:  # fmt: skip
    """A kernel of ``irregular`` for a key and parameters, a task of which draws ``width`` elements.

    ``wholes`` are the shapes of parameters that are one for each task, or element.
    """
    out, parameters = node.out.spec, [v.spec for v in node.inputs[1:]]
    if not has_elements(node) or {p.dtype for p in (*parameters, out)} != {float64}:
        return None
    steps = [_step_of(p, w) for p, w in zip(parameters, wholes or [out.shape] * len(parameters))]
    if None in steps:
        return None
    n = math.prod(node.params["shape"]) // width

    def body(frame: Frame) -> None:
        call(frame, (group, name, "d"), [*frame.reads, *frame.writes, n, *steps, *more])

    return SpecialStep(node, body, tasks=out.size // width, cost=out.size * draws.PRICE[name])


def random_gamma(node: Node) -> Step | None:
    """Gamma variates, or their logarithms."""
    return _rejection(node, "rejection", "gamma", int(node.params["logarithm"]))


def random_poisson(node: Node) -> Step | None:
    """Poisson variates."""
    return _rejection(node, "rejection", "poisson")


def random_binomial(node: Node) -> Step | None:
    """Binomial variates."""
    return _rejection(node, "trials", "binomial")


def random_multinomial(node: Node) -> Step | None:
    """Multinomial variates: a task is a row of classes."""
    *rows, classes = node.out.spec.shape
    wholes = [(*rows, 1), (*rows, classes)]
    return _rejection(node, "trials", "multinomial", classes, width=classes, wholes=wholes)


def random_permutation(node: Node) -> Step | None:
    """Permutations of range(n) along the last axis."""
    n = node.params["shape"][-1]
    if not has_elements(node) or n > draws.MOST_SHUFFLED:
        return None
    tasks = node.out.spec.size // n
    lines = tasks * KEY_WORDS // node.inputs[0].spec.size  # of a key

    def body(frame: Frame) -> None:
        words = [*frame.reads, *frame.writes, n, lines, limits.RANKED_ROW, frame.scratch, 0, tasks]
        call(frame, ("shuffle", "permutation", "l"), words)

    cost, scratch = tasks * draws.shuffle_price(n), 8 * draws.shuffle_words(n)
    return SpecialStep(node, body, tasks=tasks, cost=cost, scratch=scratch)
