"""Functions of a module, and what an emitter of one begins with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.loops import turns
from fx.backends.cpu.llvm.ir.sizes import loaded, size
from fx.backends.cpu.llvm.ir.types import i64, pointer, void


def kernel(module: ir.Module, name: str, pointers: int) -> ir.Function:
    """The function of a step: ``void (i64 begin, i64 end, ptr scratch, ptr ...)``."""
    kind = ir.FunctionType(void, [i64, i64, *[pointer] * (1 + pointers)])
    found = ir.Function(module, kind, name)
    found.attributes.add("nounwind")
    return found


def internal(
    module: ir.Module, name: str, args: Sequence[ir.Type], inline: bool = False
) -> ir.Function:
    """A new void function that only this module sees; pointers do not alias one another."""
    found = ir.Function(module, ir.FunctionType(void, list(args)), name)
    found.linkage = "internal"
    found.attributes.add("alwaysinline" if inline else "noinline")
    found.attributes.add("nounwind")
    for arg in found.args:
        if arg.type == pointer:
            arg.add_attribute("noalias")
    return found


def table(module: ir.Module, name: str, numbers: Sequence[int]) -> Any:
    """A constant array of i64 in the module; its address."""
    kind = ir.ArrayType(i64, len(numbers))
    found = ir.GlobalVariable(module, kind, name)
    found.global_constant = True
    found.linkage = "internal"
    found.initializer = ir.Constant(kind, [int(n) for n in numbers])
    found.type = pointer
    return found


class Frame:
    """The inside of a kernel: its builder, arguments and the range of its tasks.

    Args:
        module: what it is added to.
        name: of the function.
        reads, writes: how many arrays.
        sizes: where the last array that is read holds sizes that are known when it runs.
    """

    def __init__(
        self,
        module: ir.Module,
        name: str,
        reads: int,
        writes: int,
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        self.function = kernel(module, name, reads + writes)
        self.b = ir.IRBuilder(self.function.append_basic_block())
        self.begin, self.end, self.scratch, *arrays = self.function.args
        self.reads, self.writes = arrays[:reads], arrays[reads:]
        self.words = None if sizes is None else self.reads.pop()
        self.sizes = {} if sizes is None else loaded(self.b, self.words, sizes)

    def number(self, n: int) -> Any:
        """A size as an i64; what is computed of sizes stands where the builder does."""
        return size(self.b, n, dict(self.sizes))

    @contextmanager
    def tasks(self) -> Iterator[Any]:
        """A loop over the tasks of the call; the function returns behind it."""
        with turns(self.b, self.begin, self.end) as task:
            yield task
        self.b.ret_void()
