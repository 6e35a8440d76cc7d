"""Order: the first elements of lines, those of some ranks, binary search; by keys of integers.

Elements have 1, 2, 4 or 8 bytes. An element becomes a *key*, a signed integer of its width that
orders as it does: NaN is the largest, -0 equals 0. In a short line it is counted for each element
how many come before it. A long one is sorted digit by digit, least significant first, which keeps
the order of equal elements: a word holds 32 bits of a key and below them the place that it came
from; keys of 64 bits go in two rounds, the low halves first. To find the element of one rank
nothing is sorted: of the keys, those whose first digit is the right one are kept, then those whose
second is, until all that are left are equal.
"""

from numba import int64

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, inline, offset, width_of

_SIGNED, _UNSIGNED = 0, 1  # kinds; others are the bits of a float's infinity
_HALF = int64(0xFFFFFFFF)
_DIGITS = 2048


@inline
def _key(x, kind, width, down):
    """The key of an element, given as an integer with its sign."""
    word = int64(x)
    ones = int64(-1) << (width - 1)
    if kind > _UNSIGNED:
        magnitude = word & ~ones
        key = -magnitude if word < 0 else magnitude
        key = ~ones if magnitude > kind else key
    else:
        key = word if kind == _SIGNED else word ^ ones
    return ~key if down else key


@inline
def _natural(x, kind, width, down):
    """A key as bits that order as unsigned numbers."""
    return _key(x, kind, width, down) - (int64(-1) << (width - 1))


@inline
def _extreme(x, step, n, kind, width, down, place):
    """The place of the first."""
    best = _key(x[0], kind, width, down)
    at = int64(0)
    for i in range(1, n):
        key = _key(x[i * step], kind, width, down)
        at = i if key < best else at
        best = min(key, best)
    place[0] = at


@inline
def _counted(x, step, n, k, kind, width, down, keys, places):
    """The places of the k first, by how many elements come before each."""
    for i in range(n):
        keys[i] = _key(x[i * step], kind, width, down)
    for i in range(n):
        key = keys[i]
        rank = int64(0)
        for j in range(i):
            rank += keys[j] <= key
        for j in range(i + 1, n):
            rank += keys[j] < key
        if rank < k:
            places[rank * step] = i


@inline
def _chosen(x, step, n, k, kind, width, down, counts, found):
    """Places of elements with the k first among them, by the first digit of keys; how many."""
    shift = max(width - 11, 0)
    for d in range(_DIGITS):
        counts[d] = 0
    for i in range(n):
        counts[(_natural(x[i * step], kind, width, down) >> shift) & (_DIGITS - 1)] += 1
    last = int64(0)
    total = counts[0]
    while total < k:
        last += 1
        total += counts[last]
    at = int64(0)
    i = int64(0)
    while at < total:
        found[at] = i
        digit = (_natural(x[i * step], kind, width, down) >> shift) & (_DIGITS - 1)
        at += digit <= last
        i += 1
    return total


@inline
def by_digits(words, other, counts, n, low, bits, size):
    """Sort by ``bits`` bits from bit ``low`` on, ``size`` at a time; whether ``other`` has it."""
    left = bits
    moved = False
    while left > 0:
        mask = (int64(1) << size) - 1
        for d in range(mask + 1):
            counts[d] = 0
        for i in range(n):
            counts[(words[i] >> low) & mask] += 1
        if counts[(words[0] >> low) & mask] < n:  # not all the same
            total = int64(0)
            for d in range(mask + 1):
                count = counts[d]
                counts[d] = total
                total += count
            for i in range(n):
                word = words[i]
                digit = (word >> low) & mask
                at = counts[digit]
                counts[digit] = at + 1
                other[at] = word
            words, other = other, words
            moved = not moved
        low += size
        left -= size
    return moved


@inline
def _by_halves(words, other, counts, n, bits):
    """Sort by ``bits`` of the upper 32 bits; whether the result lies in ``other``."""
    return by_digits(words, other, counts, n, int64(32), bits, int64(8 if n < 3000 else 11))


@inline
def _sorted(x, step, n, kind, width, down, counts, words, other):
    """Sort the elements whose places ``words`` holds; whether the result lies in ``other``."""
    moved = False
    if width == 64:
        low = high = _key(x[words[0] * step], kind, width, down)
        for i in range(1, n):
            key = _key(x[words[i] * step], kind, width, down)
            low, high = min(low, key), max(high, key)
        span = high - low
        if 0 <= span <= _HALF:  # keys of 32 bits
            for i in range(n):
                at = words[i]
                words[i] = ((_key(x[at * step], kind, width, down) - low) << 32) | at
            bits = int64(0)
            while bits < 32 and span >> bits:
                bits += 1
            return _by_halves(words, other, counts, n, bits)
        for i in range(n):
            at = words[i]
            words[i] = (_natural(x[at * step], kind, width, down) << 32) | at
        if _by_halves(words, other, counts, n, 32):
            words, other = other, words
            moved = True
    for i in range(n):
        at = words[i] & _HALF
        key = _natural(x[at * step], kind, width, down)
        words[i] = ((key >> 32 if width == 64 else key) << 32) | at
    return _by_halves(words, other, counts, n, min(width, 32)) != moved


# fmt: off
def first(
    begin, end, x: ARRAY, values: ARRAY, places: INT64S, n: INT, k: INT, step: INT, kind: INT,
    down: INT, valued: INT, short: INT, work: INT64S, room: INT, chunk: INT,
):
    # fmt: on
    """The k first elements of lines in order, if ``valued``, and their places.

    A task is a line: x (lines // step, n, step), values and places (lines // step, k, step). Lines
    of up to ``short`` elements are counted. ``work`` has ``room`` words for each ``chunk`` tasks:
    2 n, and for longer lines 2048 more.
    """
    width = width_of(x)
    words = offset(work, begin // chunk * room)
    other = offset(words, n)
    counts = offset(other, n)
    for line in range(begin, end):
        own = offset(x, line // step * n * step + line % step)
        at = line // step * k * step + line % step
        found = offset(places, at)
        if k == 1:
            _extreme(own, step, n, kind, width, down, found)
        elif n <= short:
            _counted(own, step, n, k, kind, width, down, words, found)
        else:
            count = n
            if k < n:
                count = _chosen(own, step, n, k, kind, width, down, counts, words)
            else:
                for i in range(n):
                    words[i] = i
            source = words
            if _sorted(own, step, count, kind, width, down, counts, words, other):
                source = other
            for i in range(k):
                found[i * step] = source[i] & _HALF
        if valued:
            best = offset(values, at)
            for i in range(k):
                best[i * step] = own[found[i * step] * step]


@inline
def _at_rank(x, step, n, rank, kind, width, counts, keys):
    """The place of the element of a rank, 0 being the first in the order."""
    for i in range(n):
        keys[i] = _natural(x[i * step], kind, width, 0)
    size = int64(8 if n < 1024 else 11)
    left = int64(width)
    count = int64(n)
    while left > 0 and count > 1:
        bits = min(size, left)
        left -= bits
        mask = (int64(1) << bits) - 1
        for d in range(mask + 1):
            counts[d] = 0
        for i in range(count):
            counts[(keys[i] >> left) & mask] += 1
        digit = int64(0)
        while rank >= counts[digit]:
            rank -= counts[digit]
            digit += 1
        if counts[digit] < count:
            kept = int64(0)
            for i in range(count):
                key = keys[i]
                keys[kept] = key
                kept += ((key >> left) & mask) == digit
            count = kept
    key = keys[0]
    at = int64(0)
    while True:  # equal elements come in the order of their places
        if _natural(x[at * step], kind, width, 0) == key:
            if rank == 0:
                break
            rank -= 1
        at += 1
    return at


@inline
def _missing(x, step, n, kind, width):
    """How many elements are NaN."""
    count = int64(0)
    if kind > _UNSIGNED:
        largest = ~(int64(-1) << (width - 1))
        for i in range(n):
            count += _key(x[i * step], kind, width, 0) == largest
    return count


# fmt: off
def ranked(
    begin, end, x: ARRAY, ranks: INT64S, values: ARRAY, places: INT64S, n: INT, m: INT, step: INT,
    kind: INT, lost: INT, valued: INT, few: INT, work: INT64S, room: INT, chunk: INT,
):
    # fmt: on
    """The elements of lines that have some ranks in their order, if ``valued``, and their places.

    A task is a line: x (lines // step, n, step), the others (lines // step, m, step). A rank
    outside of 0 .. n - 1 counts as the nearest. In a line with a NaN every rank is that of its
    first NaN where ``lost`` is 1, and of its last where that is 2. For more than ``few`` ranks a
    line is sorted. ``work`` has ``room`` words for each ``chunk`` tasks: n + 2048, or 2 n + 2048
    where it is sorted.
    """
    width = width_of(x)
    words = offset(work, begin // chunk * room)
    other = offset(words, n)
    counts = other if m <= few else offset(other, n)
    for line in range(begin, end):
        own = offset(x, line // step * n * step + line % step)
        at = line // step * m * step + line % step
        source = words
        if m > few:
            for i in range(n):
                words[i] = i
            if _sorted(own, step, n, kind, width, 0, counts, words, other):
                source = other
        missing = _missing(own, step, n, kind, width) if lost > 0 else int64(0)
        for j in range(m):
            rank = min(max(ranks[at + j * step], 0), n - 1)
            if missing > 0:
                rank = n - missing if lost == 1 else n - 1
            place = int64(0)
            if m > few:
                place = source[rank] & _HALF
            else:
                place = _at_rank(own, step, n, rank, kind, width, counts, words)
            places[at + j * step] = place
            if valued:
                values[at + j * step] = own[place * step]


# fmt: off
def search(
    begin, end, sequence: ARRAY, values: ARRAY, out: INT64S, n: INT, m: INT, rows: INT, kind: INT,
    right: INT,
):
    # fmt: on
    """Where values would go in their sorted sequences: before their equals, or behind them.

    A task is a value: of m in a row, whose sequence has n elements, its own one if ``rows``.
    """
    width = width_of(values)
    largest = ~(int64(-1) << 63)
    for i in range(begin, end):
        base = offset(sequence, i // m * n * rows)
        key = _key(values[i], kind, width, 0)
        if right and key == largest:
            out[i] = n
            continue
        key += 1 if right else 0  # behind its equals is before what is larger
        at = int64(0)
        left = n
        while left > 1:
            half = left >> 1
            at += half if _key(base[at + half - 1], kind, width, 0) < key else 0
            left -= half
        if left == 1 and _key(base[at], kind, width, 0) < key:
            at += 1
        out[i] = at
