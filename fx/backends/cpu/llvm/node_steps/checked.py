"""Kernels that may meet an unfit value, and the indices that are known to be in range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.failures import BAD_INDEX, failed
from fx.backends.cpu.llvm.ir import Frame, i1, i64, load_item, store_item
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep
from fx.compiler.extents import LEAST, Sizes
from fx.compiler.maps import VIEWS
from fx.dtypes import int64
from fx.errors import FxError
from fx.graph.ir import Node, Value, _value
from fx.graph.key import foldable
from fx.spec import TensorSpec

_PLACES = {"argmax", "argmin", "argsort", "top_k_indices", "ranked_indices", "cummax", "cummin"}


class CheckedStep(SpecialStep):
    """A kernel that may meet an index out of range, or a divisor that is 0.

    Attributes:
        failure: the message as a format of C, which may take the index as 64 bits.
        words: what it may tell of (``llvm/failures.py``).
    """

    words: tuple[int, ...] = (BAD_INDEX,)

    def __init__(self, node: Node, body: Callable[[Frame], None], failure: str, **more: Any):
        tasks = more.get("tasks", 1)
        words = _value(TensorSpec((tasks, 2), int64), node, len(node.outs), None)
        super().__init__(node, body, writes=(*node.outs, words), **more)
        self.status = len(node.outs)
        self.failure = failure

    def speak_of(self, name: str, where: str) -> None:
        """Let the message name what the user wrote, where this is the node of a check."""
        (node,) = {v.node for v in self.writes}
        n = node.params["size"]
        known = n if _is_known(self.sizes, n) else None
        self.failure = message(name, known, where, node.inputs[0].spec.dtype)

    def error(self, index: int) -> FxError:
        """What to raise where it fails."""
        return failed(self.words[0], self.failure, index)


def message(name: str, n: int | None, where: str, dtype: Any) -> str:
    """The words of the eager kernel, with a place for the index; ``n`` is None if it varies."""
    place = "%lld" if dtype.kind == "i" else "%llu"
    told = f"{name}: index {place} is out of range for {where}"
    if n is None:
        return f"{told}, whose size is another in other calls"
    valid = f"valid are {-n}..{n - 1}" if n else "an empty axis has no valid index"
    return f"{told}, which has size {n}; {valid}"


def in_range(value: Value, n: int, sizes: Sizes | None = None) -> bool:
    """Whether every index is known to lie in -n .. n - 1, whatever the inputs.

    Args:
        value: the indices.
        n: the size of the axis.
        sizes: those that are known when the code runs: what one bounds is not known.
    """
    n = n if _is_known(sizes, n) else LEAST
    if value.constant is not None:
        if not foldable(value):  # its values are no part of what the program is found by
            return False
        array = value.array
        return bool(array.size == 0 or (array.min() >= -n and array.max() < n))
    node = value.node
    if node is None:
        return False
    name = node.primitive.name
    if name in _PLACES:
        if value.position != len(node.outs) - 1:  # the values of cummax and cummin
            return False
        most = node.inputs[0].spec.shape[node.params["axis"]]
        return _is_known(sizes, most) and most <= n
    if name == "wrap_index":
        return _is_known(sizes, node.params["size"]) and node.params["size"] <= n
    if name in VIEWS:
        return in_range(node.inputs[0], n, sizes)
    if name == "astype":
        old, new = node.inputs[0].spec.dtype, value.spec.dtype
        kept = old.kind == new.kind and old.kind in "iu" and 2 * n < 2 ** (8 * new.itemsize)
        return kept and in_range(node.inputs[0], n, sizes)
    if name == "iota":
        count, start, step = (
            node.params["shape"][node.params["axis"]], node.params["start"], node.params["step"]
        )  # fmt: skip
        if not _is_known(sizes, [count, start, step]):
            return False
        ends = (0, count - 1)
        found = [start + step * i for i in ends]
        return -n <= min(found) and max(found) < n
    return False


def _is_known(sizes: Sizes | None, numbers: Any) -> bool:
    return sizes is None or not sizes.touch(numbers)


class Guard:
    """Reads indices, and remembers the first bad one of a task.

    Args:
        frame: the kernel.
        array: the indices.
        dtype: their dtype.
        n: the size of the axis, an i64.
        status: the array of the words; None where every index is known to be in range.
        task: which task this is.
    """

    def __init__(
        self, frame: Frame, array: Any, dtype: Any, n: Any, status: Any, task: Any
    ) -> None:
        self.b, self.array, self.dtype, self.n, self.status = frame.b, array, dtype, n, status
        if status is not None:
            self.word = self.b.mul(task, i64(2))
            store_item(self.b, i64(0), status, self.word, int64)

    def _wide(self, place: Any) -> Any:
        b = self.b
        raw = load_item(b, self.array, place, self.dtype)
        if self.dtype.itemsize == 8:
            return raw
        return (b.sext if self.dtype.kind == "i" else b.zext)(raw, i64)

    def _front(self, index: Any) -> Any:
        """A negative index from the front."""
        b = self.b
        if self.dtype.kind != "i":
            return index
        below = b.icmp_signed("<", index, i64(0))
        return b.select(below, b.add(index, self.n), index)

    def known(self, place: Any) -> Any:
        """The index there, which was looked at before."""
        return self._front(self._wide(place))

    def read(self, place: Any, bad: Any) -> Any:
        """The index there, from the front; a jump to the block ``bad`` if it is out of range."""
        b = self.b
        wide = self._wide(place)
        index = self._front(wide)
        if self.status is None:
            return index
        wrong, right = b.append_basic_block("wrong"), b.append_basic_block("right")
        inside = b.icmp_unsigned("<", index, self.n)
        b.cbranch(_likely(b, inside), right, wrong)
        b.position_at_end(wrong)
        store_item(b, i64(BAD_INDEX), self.status, self.word, int64)
        store_item(b, wide, self.status, b.add(self.word, i64(1)), int64)
        b.branch(bad)
        b.position_at_end(right)
        return index


def _likely(b: Any, condition: Any) -> Any:
    """A condition that nearly always holds."""
    name = "llvm.expect.i1"
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(i1, [i1, i1]), name)
    return b.call(function, [condition, ir.Constant(i1, 1)])
