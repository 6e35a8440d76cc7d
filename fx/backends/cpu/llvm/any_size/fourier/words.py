"""The words of the kernels."""

from __future__ import annotations

# what is read or written: complex numbers, real ones, pairs of real ones that are one point
COMPLEX, REALS, PAIRS = range(3)
# of lanes, what is done besides: half a spectrum of pairs, pairs of it, real numbers of it
PLAIN, TO_HALF, FROM_HALF, ODD_FROM_HALF = range(4)
# the words of a stage: of arrays (before, n, after) what a step along an axis is, in real numbers,
# and LINES of them side by side, of EACH tasks a task of the kernel; and a thread's memory
(WAY, EACH, X, OUT, TABLE, SCALE, KIND_IN, KIND_OUT, INVERSE, FORM, COUNT_IN, COUNT_OUT, LINES,
 BEFORE_IN, BEFORE_OUT, SCRATCH, ROOM, CHUNK) = range(18)  # fmt: skip
POINTERS = (X, OUT, TABLE, SCALE, SCRATCH)
WAYS = ("columns", "rows", "long", "first", "second", "to_half", "from_half")
STACK = 1 << 14  # bytes: of memory that needs no scratch
KERNELS = {"lines": WAYS[:3], "halves": WAYS[3:]}  # those that each kernel knows
RADICES = (8, 4, 2, 3, 5, 7)  # of passes
