"""What emitters of convolutions share: sums in blocks, and lanes that lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.conv.plan import Batch
from fx.backends.cpu.llvm.ir.emitter import Emitter as _Emitter
from fx.backends.cpu.llvm.ir.sizes import loaded, size
from fx.compiler.extents import is_known
from fx.dtypes import as_dtype


class Emitter(_Emitter):
    """Emits a function whose floats are of one dtype; ``lanes`` is 1 for a scalar.

    Args:
        function: the ``ir.Function`` to fill.
        dtype: the name of the dtype.
    """

    def __init__(self, function: Any, dtype: str) -> None:
        super().__init__(function)
        self.dtype, self.itemsize = dtype, as_dtype(dtype).itemsize
        self.kind = v.llvm_type(as_dtype(dtype))

    def at(self, address: Any, index: v.Index, kind: Any = None) -> Any:
        """The address of a float, or of an element of another kind."""
        return v.at(self.b, address, index, kind or self.kind)

    def room(self, count: int) -> Any:
        """Memory for so many floats on the stack of this call."""
        return v.room(self.b, self.kind, count)

    def zero(self, lanes: int) -> Any:
        """A zero, or a vector of zeros."""
        return v.zeros(self.kind, None if lanes == 1 else lanes)

    def load(self, address: Any, lanes: int = 1, mask: Any = None) -> Any:
        """A float, or a vector with zeros where the mask is off."""
        return v.load(self.b, address, self.kind, None if lanes == 1 else lanes, mask)

    def load_first(self, address: Any, lanes: int, count: int) -> Any:
        """The first ``count`` elements there, then zeros."""
        return v.load_first(self.b, address, self.kind, lanes, count)

    def samples(self, batch: Batch, words: Sequence[Any]) -> v.Index:
        """How many samples there are; read of the words, which are none where it is known."""
        if is_known(batch.samples):
            return batch.samples
        assert batch.sizes is not None
        return size(self.b, batch.samples, loaded(self.b, *words, batch.sizes.places))

    def sums(
        self, stop: int, body: Callable[..., Sequence[Any]], count: int, lanes: int, each: int
    ) -> list[Any]:
        """``count`` vectors of sums that ``body(i, *sums)`` adds to, for i in range(stop).

        Each turn adds ``each`` products to a sum. After ``limits.CONV_SUM`` of them the sums go
        to memory and start anew: a long chain of additions loses digits.
        """
        part = max(1, limits.CONV_SUM // max(each, 1))
        zeros = [self.zero(lanes)] * count
        if stop <= part:
            return self.loop(0, stop, body, zeros)
        held = self.room(lanes * count)
        places = [self.at(held, i * lanes) for i in range(count)]
        for place in places:
            self.store(self.zero(lanes), place)

        def some(first: Any) -> None:
            last = self.smaller(self.add(first, part), stop)
            found = self.loop(first, last, body, zeros)
            for value, place in zip(found, places, strict=True):
                self.store(self.b.fadd(self.load(place, lanes), value), place)

        self.loop(0, stop, some, step=part)
        return [self.load(place, lanes) for place in places]

    def apart(self, address: Any, step: int, lanes: int) -> Any:
        """Elements ``step`` apart (at most 4), picked out of as many vectors side by side."""
        parts = [self.load(self.at(address, i * lanes), lanes) for i in range(step)]
        out = parts[0]
        held = [i * step for i in range(lanes)]  # where in ``out`` what lane i wants is, if it is
        for k in range(1, step):
            places = []
            for i in range(lanes):
                at = i * step - k * lanes
                if at < 0:
                    places.append(held[i])
                    held[i] = i
                elif at < lanes:
                    places.append(lanes + at)
                    held[i] = i
                else:
                    places.append(0)
            out = self.shuffle(out, parts[k], places)
        return out

    def store_apart(self, value: Any, address: Any, step: int, count: int) -> None:
        """Store the first ``count`` lanes ``step`` apart, and touch nothing between them."""
        lanes = value.type.count
        if step > 4:
            for i in range(count):
                one = self.b.extract_element(value, v.i32(i))
                self.store(one, self.at(address, i * step))
            return
        for first in range(0, (count - 1) * step + 1, lanes):
            mask = [int(i % step == 0 and i // step < count) for i in range(first, first + lanes)]
            wide = value
            if step > 1:
                places = [(first + i) // step if mask[i] else 0 for i in range(lanes)]
                wide = self.shuffle(value, value, places)
            some = None if all(mask) else v.numbers(v.i1, mask)
            self.store(wide, self.at(address, first), some)
