"""Reference functions of the random primitives, from the contract that every backend keeps.

Source of the bits: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3".
"""

import math
import statistics

import numpy as np

MASK = 0xFFFFFFFF
NORMAL = statistics.NormalDist()


def philox(counter, key):
    """One block of Philox 4x32-10."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        p, q = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (q >> 32) ^ b ^ k0, q & MASK, (p >> 32) ^ d ^ k1, p & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return a, b, c, d


class Stream:
    """The words of one key of six."""

    def __init__(self, key):
        seed_low, seed_high, *counter = map(int, key)
        self.state = philox(counter, (seed_low, seed_high))

    def block(self, number, high=None):
        s0, s1, s2, s3 = self.state
        return philox((number & MASK, number >> 32 if high is None else high, s2, s3), (s0, s1))

    def word(self, i):
        return self.block(i // 4)[i % 4]

    def derived(self, number):
        return (*self.block(number & MASK, 0x80000000), 0, 0)


def each_key(function, dtype):
    """The result for keys (*B, 6), by a function of one key that gives one element."""

    def oracle(key, *parameters, shape=(), **params):
        out = np.empty((*key.shape[:-1], *shape), dtype or params["dtype"])
        n = math.prod(shape)
        keys = key.reshape(-1, 6)
        rows = out.reshape(len(keys), n)
        given = [np.broadcast_to(p, out.shape).reshape(rows.shape) for p in parameters]
        for r, one in enumerate(keys):
            for i in range(n):
                rows[r, i] = function(Stream(one), i, n, *[g[r, i] for g in given], **params)
        return out

    return oracle


def long_word(stream, i, n, planes=2):
    """The words of element i in ``planes`` planes of n, the highest first."""
    value = 0
    for plane in range(planes):
        value = value << 32 | stream.word(plane * n + i)
    return value


def open_unit(bits):
    """The middle of one of 2 ** 52 cells of (0, 1), from 64 bits."""
    return ((bits >> 12) + 0.5) * 2.0**-52


def normal(bits):
    """The normal quantile of the middle of one of 2 ** 64 cells."""
    half = (bits + 2**63) % 2**64  # the words are read as a signed number
    p = (min(half, 2**64 - 1 - half) + 0.5) * 2.0**-64
    return math.copysign(NORMAL.inv_cdf(p), half - 2**63 + 0.5)


QUANTILES = {
    "exponential": lambda u: -math.log(u),
    "gumbel": lambda u: -math.log(-math.log(u)),
    "laplace": lambda u: math.log(2 * u) if u < 0.5 else -math.log(2 * (1 - u)),
    "logistic": lambda u: math.log(u / (1 - u)),
}


def draw(stream, i, n, *, family, dtype):
    bits = long_word(stream, i, n)
    if family == "uniform":
        return (bits >> 11) * 2.0**-53
    return normal(bits) if family == "normal" else QUANTILES[family](open_unit(bits))


def truncated(stream, i, n, *, lower, upper, dtype):
    below, above = NORMAL.cdf(lower), NORMAL.cdf(upper)
    return NORMAL.inv_cdf(below + open_unit(long_word(stream, i, n)) * (above - below))


def permutation(key, *, shape):
    """Places in the order of 64-bit words, whose low bits give way to the place."""
    *lead, n = shape
    out = np.empty((*key.shape[:-1], *shape), np.int64)
    keys, count = key.reshape(-1, 6), math.prod(lead)
    rows, low = out.reshape(len(keys), count, n), max(n - 1, 0).bit_length()
    for r, line in np.ndindex(len(keys), count):
        stream = Stream(keys[r])
        words = [long_word(stream, line * n + i, count * n) >> low for i in range(n)]
        rows[r, line] = sorted(range(n), key=words.__getitem__)
    return out


def bounded(stream, i, n, span, *, planes):
    return long_word(stream, i, n, planes) * int(span) >> 32 * planes


def pairs(words):
    return words[0] << 32 | words[1], words[2] << 32 | words[3]


def gamma(stream, i, n, alpha, *, logarithm):
    """Marsaglia and Tsang (2000): attempt t reads block i of the key derived with t."""
    alpha, attempt = float(alpha), 0
    d = (alpha if alpha >= 1 else alpha + 1) - 1 / 3
    while True:
        first, second = pairs(Stream(stream.derived(attempt)).block(i))
        attempt += 1
        x, u = normal(first), open_unit(second)
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(u) < x * x / 2 + d * (1 - v + math.log(v)):
            break
    log = math.log(d * v)
    if alpha < 1:
        log += math.log(open_unit(pairs(stream.block(i))[0])) / alpha
    return log if logarithm else math.exp(log)


def poisson(stream, i, n, rate, *, dtype):
    """Inversion below 10; from there on PTRS of Hoermann (1993), on blocks as in ``gamma``."""
    rate = float(rate)
    if rate < 10:
        u, k, total = open_unit(pairs(stream.block(i))[0]), 0, math.exp(-rate)
        while u > total:
            k += 1
            total += math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))
        return k
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    for attempt in range(1000):
        first, second = pairs(Stream(stream.derived(attempt)).block(i))
        u, v = open_unit(first) - 0.5, open_unit(second)
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + rate + 0.43)
        if distance >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return k
        if k < 0 or (distance < 0.013 and v > distance):
            continue
        scaled = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / distance**2 + b))
        if scaled <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return k
    raise AssertionError("no attempt was accepted")


def log_mass(k, n, p):
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return ways + k * math.log(p) + (n - k) * math.log1p(-p)


def successes(stream, i, n, p):
    """Inversion below a mean of 10; from there on BTRS of Hoermann (1993)."""
    if p > 0.5:
        return n - successes(stream, i, n, 1 - p)
    if n * p < 10:
        u, k, total = open_unit(pairs(stream.block(i))[0]), 0, (1 - p) ** n
        while u > total and k < n:
            k += 1
            total += math.exp(log_mass(k, n, p))
        return k
    sd = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = math.floor((n + 1) * p)
    for attempt in range(1000):
        first, second = pairs(Stream(stream.derived(attempt)).block(i))
        u, v = open_unit(first) - 0.5, open_unit(second)
        distance = 0.5 - abs(u)
        k = math.floor((2 * a / distance + b) * u + n * p + 0.5)
        if distance >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        if not 0 <= k <= n:
            continue
        scaled = math.log(v * (2.83 + 5.1 / b) * sd / (a / distance**2 + b))
        if scaled <= log_mass(k, n, p) - log_mass(mode, n, p):
            return k
    raise AssertionError("no attempt was accepted")


def binomial(stream, i, n, count, chance, *, dtype):
    return successes(stream, i, math.floor(count), float(chance))


def multinomial(key, count, weights, *, shape, dtype):
    """Each class takes its binomial share of what the classes before it left."""
    out = np.empty((*key.shape[:-1], *shape), dtype)
    classes = shape[-1]
    rows = out.reshape(len(key.reshape(-1, 6)), -1, classes)
    counts = np.broadcast_to(count, (*out.shape[:-1], 1)).reshape(*rows.shape[:2])
    weights = np.broadcast_to(weights, out.shape).reshape(rows.shape).astype(np.float64)
    for r, one in enumerate(key.reshape(-1, 6)):
        stream = Stream(one)
        for i in range(rows.shape[1]):
            left = math.floor(counts[r, i])
            for j in range(classes):
                p = weights[r, i, j] / weights[r, i, j:].sum()
                taken = successes(stream, i * classes + j, left, p) if j < classes - 1 else left
                rows[r, i, j] = taken
                left -= taken
    return out


def each_pair(function):
    """The keys (*broadcast(B, N), 6) for keys (*B, 6) and numbers (*N)."""

    def oracle(key, number):
        rows = np.broadcast_shapes(key.shape[:-1], number.shape)
        keys, numbers = np.broadcast_to(key, (*rows, 6)), np.broadcast_to(number, rows)
        out = np.empty((*rows, 6), np.uint32)
        for i in np.ndindex(*rows):
            out[i] = function(keys[i], int(numbers[i]))
        return out

    return oracle


def next_key(key):
    out = key.copy()
    for row in out.reshape(-1, 6):
        count = (int(row[2]) << 32 | int(row[3])) + 1
        row[2], row[3] = count >> 32 & MASK, count & MASK
    return out


RANDOM = {
    "derive": each_pair(lambda key, number: Stream(key).derived(number)),
    "next_key": next_key,
    "random_binomial": each_key(binomial, None),
    "random_multinomial": multinomial,
    "random_below": each_key(bounded, np.uint64),
    "random_bits": each_key(lambda stream, i, n: stream.word(i), np.uint32),
    "random_draw": (each_key(draw, None), 1e-12),
    "random_gamma": (each_key(gamma, np.float64), 1e-11),
    "random_permutation": permutation,
    "random_poisson": each_key(poisson, None),
    "random_truncated_normal": (each_key(truncated, None), 1e-12),
    "with_lane": each_pair(lambda key, lane: (*key[:4], lane & MASK, lane >> 32)),
}
