"""Permutations: the order of random words of 64 bits."""

from numba import int64

from fx.backends.cpu.irregular.language import INT, INT64S, UINT32S, inline, offset
from fx.backends.cpu.irregular.order import by_digits
from fx.backends.cpu.irregular.philox import state, words

_KEY = 6
_LOWEST = int64(-(1 << 63))


@inline
def _drawn(own, start, n, out, shift):
    """Words ``start``, start + 1, ... of a state, each shifted into a word of ``out``."""
    for i in range(min(-start % 4, n)):
        out[i] |= words(own, (start + i) // 4)[(start + i) % 4] << shift
    done = min(-start % 4, n)
    whole = (n - done) // 4
    first = (start + done) // 4
    for i in range(whole):
        a, b, c, d = words(own, first + i)
        out[done + 4 * i] |= a << shift
        out[done + 4 * i + 1] |= b << shift
        out[done + 4 * i + 2] |= c << shift
        out[done + 4 * i + 3] |= d << shift
    for i in range(done + 4 * whole, n):
        out[i] |= words(own, first + whole)[(start + i) % 4] << shift


def permutation(begin, end, keys: UINT32S, out: INT64S, n: INT, lines: INT, short: INT,
                work: INT64S, room: INT, chunk: INT):  # fmt: skip
    """Permutations of range(n), n <= 2 ** 20: the order of words whose low bits are their places.

    A task is a line, of ``lines`` for each of the keys (rows, 6). Lines of up to ``short`` elements
    are counted. ``work`` has ``room`` words for each ``chunk`` tasks: n, and for longer lines 2048
    more.
    """
    mask = int64(1)
    while mask < n:
        mask *= 2
    mask -= 1
    other = offset(work, begin // chunk * room)
    for line in range(begin, end):
        found = offset(out, line * n)
        for i in range(n):
            found[i] = 0
        own = state(offset(keys, line // lines * _KEY))
        start = line % lines * n
        _drawn(own, start, n, found, 32)
        _drawn(own, lines * n + start, n, found, 0)
        for i in range(n):
            found[i] = found[i] & ~mask | i
        if n <= short:
            for i in range(n):
                other[i] = found[i] ^ _LOWEST  # orders as a signed number
            for i in range(n):
                rank = int64(0)
                for j in range(n):
                    rank += other[j] < other[i]
                found[rank] = i
            continue
        # random words that agree in as many bits as n has are few: the rest is nearly in order
        size = int64(8 if n <= 256 else 11)
        bits = size if n <= 2048 else 2 * size
        if by_digits(found, other, offset(other, n), n, 64 - bits, bits, size):
            for i in range(n):
                found[i] = other[i]
        for i in range(1, n):
            word = found[i] ^ _LOWEST
            at = i
            while at > 0 and (found[at - 1] ^ _LOWEST) > word:
                found[at] = found[at - 1]
                at -= 1
            found[at] = word ^ _LOWEST
        for i in range(n):
            found[i] &= mask
