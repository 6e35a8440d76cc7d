"""Philox in Numba: the blocks of ``fx/backends/cpu/philox.py``, of words held in int64."""

from numba import float64, int64

from fx.backends.cpu import _formulas
from fx.backends.cpu.irregular.language import inline

block = inline(_formulas.philox)
_LOW = int64(0xFFFFFFFF)
_DERIVED = int64(0x80000000)


@inline
def state(key):
    """The state of the key whose six words lie there: four words."""
    return block(
        int64(key[2]), int64(key[3]), int64(key[4]), int64(key[5]), int64(key[0]), int64(key[1])
    )


@inline
def derived(own, number):
    """The state of the key derived with a number from the key of a state."""
    a, b, c, d = block(int64(number), _DERIVED, own[2], own[3], own[0], own[1])
    return block(c, d, int64(0), int64(0), a, b)


@inline
def words(own, i):
    """Block i of a state: four words."""
    return block(i & _LOW, i >> 32, own[2], own[3], own[0], own[1])


@inline
def open_unit(high, low):
    """A float64 in (0, 1), from 52 bits of two words."""
    return (float64((high << 20) | (low >> 12)) + 0.5) * 2.0**-52
