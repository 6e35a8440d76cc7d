"""Reference functions for the kernels: plain Python and NumPy, one element or one line at a time.

Each takes the arrays and parameters of its primitive in float64. ``ORACLES`` maps a primitive's
name to its reference, or to a pair of the reference and the relative tolerance of the comparison.
"""

import bisect
import itertools
import math
import operator
import statistics

import numpy as np

from tests.laws.attention_oracles import ATTENTION
from tests.laws.control_oracles import CONTROL
from tests.laws.fourier_oracles import FOURIER
from tests.laws.matrix_oracles import MATRICES
from tests.laws.random_oracles import RANDOM
from tests.laws.special_oracles import SPECIAL
from tests.laws.window_oracles import WINDOWS


def each(function, kind="d"):
    """Apply a function of Python numbers to every element; the result has a dtype of that kind."""
    return np.vectorize(function, otypes=[kind])


def truth(function):
    return each(function, "?")


def whole(function):
    return each(function, "q")


# special functions ------------------------------------------------------------------------------


def polygamma(n, x):
    """(-1)^(n+1) n! sum (x + k)^-(n+1), the tail by Euler and Maclaurin."""
    n, s = int(n), int(n) + 1
    z = x + 20
    total = math.fsum((x + k) ** -s for k in range(20)) + z**-n / n + z**-s / 2
    power, factor = z ** -(s + 1), s
    for k, bernoulli in ((1, 1 / 6), (2, -1 / 30), (3, 1 / 42), (4, -1 / 30), (5, 5 / 66)):
        total += bernoulli * factor * power / math.factorial(2 * k)
        factor *= (s + 2 * k - 1) * (s + 2 * k)
        power /= z * z
    return (-1) ** s * math.factorial(n) * total


def digamma(x):
    z = x + 20
    tail = math.log(z) - 1 / (2 * z) - 1 / (12 * z**2) + 1 / (120 * z**4) - 1 / (252 * z**6)
    return tail + 1 / (240 * z**8) - math.fsum(1 / (x + k) for k in range(20))


def erfinv(x):
    return statistics.NormalDist().inv_cdf((x + 1) / 2) / math.sqrt(2)


# shape ------------------------------------------------------------------------------------------


def gathered(shape, like, source):
    """An array whose element at an index is ``source(index)``."""
    out = np.empty(shape, like.dtype)
    for i in np.ndindex(*shape):
        out[i] = source(i)
    return out


def transpose(x, *, axes):
    def source(i):
        j = [0] * x.ndim
        for k, a in zip(i, axes, strict=True):
            j[a] = k
        return x[tuple(j)]

    return gathered([x.shape[a] for a in axes], x, source)


def broadcast_to(x, *, shape):
    def source(i):
        own = i[len(i) - x.ndim :]
        return x[tuple([0 if n == 1 else k for k, n in zip(own, x.shape, strict=True)])]

    return gathered(shape, x, source)


def sum_to(x, *, shape):
    terms = {}
    lead = x.ndim - len(shape)
    for i in np.ndindex(*x.shape):
        j = tuple([0 if n == 1 else k for k, n in zip(i[lead:], shape, strict=True)])
        terms.setdefault(j, []).append(x[i])
    return gathered(shape, x, lambda j: math.fsum(terms[j]))


def slice_(x, *, start, stop, step, drop=()):
    kept = [range(a, b, s) for a, b, s in zip(start, stop, step, strict=True)]

    def source(i):
        return x[tuple([places[k] for places, k in zip(kept, i, strict=True)])]

    out = gathered([len(places) for places in kept], x, source)
    return np.squeeze(out, drop) if drop else out


def pad(x, value, *, low, high, inside):
    spread = [max(n - 1, 0) * s + n for n, s in zip(x.shape, inside, strict=True)]
    shape = [a + n + b for a, n, b in zip(low, spread, high, strict=True)]
    out = gathered(shape, x, lambda i: value)
    for i in np.ndindex(*x.shape):
        out[tuple([a + k * (s + 1) for a, k, s in zip(low, i, inside, strict=True)])] = x[i]
    return out


def concatenate(*xs, axis):
    rows = [row for x in xs for row in np.moveaxis(x, axis, 0)]
    shape = list(xs[0].shape)
    shape[axis] = len(rows)
    return gathered(shape, xs[0], lambda i: rows[i[axis]][(*i[:axis], *i[axis + 1 :])])


def flip(x, *, axes):
    return gathered(
        x.shape, x, lambda i: x[tuple([-1 - k if a in axes else k for a, k in enumerate(i)])]
    )


# reductions and lines ---------------------------------------------------------------------------


def reduced(function, dtype=None):
    """A reduction, by a function of the list of elements that are reduced to one."""

    def oracle(x, *, axes, keepdims):
        groups = {}
        for i in np.ndindex(*x.shape):
            key = tuple([0 if a in axes else k for a, k in enumerate(i)])
            groups.setdefault(key, []).append(x[i])
        shape = [1 if a in axes else n for a, n in enumerate(x.shape)]
        out = np.empty(shape, dtype or x.dtype)
        for key in np.ndindex(*shape):
            out[key] = function(groups[key])
        return out if keepdims else out.reshape([n for a, n in enumerate(x.shape) if a not in axes])

    return oracle


def lines(function, dtype=None):
    """What works along an axis, by a function of one line as a list."""

    def oracle(*xs, axis, **params):
        moved = [np.moveaxis(x, axis, -1) for x in xs]
        rows = [x.reshape(-1, x.shape[-1]) for x in moved]
        found = [function(*map(list, row), **params) for row in zip(*rows, strict=True)]
        out = np.asarray(found, dtype or xs[0].dtype)
        return np.moveaxis(out.reshape(*moved[0].shape[:-1], -1), -1, axis)

    return oracle


def place(choose):
    def oracle(x, *, axis, keepdims):
        def line(values):
            return [choose(range(len(values)), key=values.__getitem__)]

        out = lines(line, np.int64)(x, axis=axis)
        return out if keepdims else out.squeeze(axis)

    return oracle


def from_either_end(function):
    """A cumulative line function, run from the end of the line if ``reverse``."""

    def line(*values, reverse):
        if reverse:
            return function(*[v[::-1] for v in values])[::-1]
        return function(*values)

    return line


def accumulated(function):
    return lines(from_either_end(lambda line: list(itertools.accumulate(line, function))))


def records(better):
    def values(line):
        return list(itertools.accumulate(line, lambda a, b: b if better(b, a) else a))

    def places(line):
        return [line.index(v) for v in values(line)]

    def places_from_the_end(line, reverse):
        found = places(line[::-1] if reverse else line)
        return [len(line) - 1 - i for i in found][::-1] if reverse else found

    def oracle(x, *, axis, reverse):
        return (
            lines(from_either_end(values))(x, axis=axis, reverse=reverse),
            lines(places_from_the_end, np.int64)(x, axis=axis, reverse=reverse),
        )

    return oracle


def recurrence(factors, terms):
    out, last = [], 0.0
    for a, b in zip(factors, terms, strict=True):
        last = a * last + b
        out.append(last)
    return out


def logsumexp(values):
    return math.log(math.fsum(map(math.exp, values)))


def ordered(values, descending):
    sign = -1 if descending else 1
    return sorted(range(len(values)), key=lambda i: sign * values[i])


def top_k(x, *, k, axis, largest):
    return lines(lambda line: ordered(line, largest)[:k], np.int64)(x, axis=axis)


def searchsorted(sequence, values, *, side):
    find = {"left": bisect.bisect_left, "right": bisect.bisect_right}[side]
    out = np.empty(values.shape, np.int64)
    for i in np.ndindex(*values.shape):
        out[i] = find(list(sequence[i[:-1]] if sequence.ndim > 1 else sequence), values[i])
    return out


# indexing ---------------------------------------------------------------------------------------

COMBINE = {
    "set": lambda old, new: new, "add": operator.add, "mul": operator.mul, "min": min, "max": max,
}  # fmt: skip


def take(x, idx, *, axis):
    shape = (*x.shape[:axis], *idx.shape, *x.shape[axis + 1 :])
    end = axis + idx.ndim
    return gathered(shape, x, lambda i: x[(*i[:axis], idx[i[axis:end]], *i[end:])])


def take_along_axis(x, idx, *, axis):
    return gathered(idx.shape, x, lambda i: x[(*i[:axis], idx[i], *i[axis + 1 :])])


def scatter(x, idx, updates, *, axis, mode):
    out, end = x.copy(), axis + idx.ndim
    for i in np.ndindex(*updates.shape):
        at = (*i[:axis], idx[i[axis:end]], *i[end:])
        out[at] = COMBINE[mode](out[at], updates[i])
    return out


def scatter_along_axis(x, idx, updates, *, axis, mode):
    out = x.copy()
    for i in np.ndindex(*updates.shape):
        at = (*i[:axis], idx[i], *i[axis + 1 :])
        out[at] = COMBINE[mode](out[at], updates[i])
    return out


# collectives, whose kernels see what every lane has in common ------------------------------------


def all_gather(x, lane, *, axis, size):
    out = np.zeros((size, *x.shape))
    for _ in range(size):
        out[lane] += x
    return out


def psum_scatter(x, lane, *, axis, size):
    return sum([x[lane]] * size)


def all_to_all(x, lane, *, axis, size):
    out = np.zeros(x.shape)
    out[lane] = sum([x[lane]] * size)
    return out


def pbroadcast(x, lane, *, axis, size, source):
    return sum([x if lane == source else 0 * x] * size)


def shard(x, lane, *, axis, size, how):
    if how == "rows":
        return x[lane]
    return x if how == "same" or lane == 0 else 0 * x


def unshard(x, lane, *, axis, size, how):
    if how != "rows":
        return shard(x, lane, axis=axis, size=size, how=how)
    out = np.zeros((size, *x.shape))
    out[lane] = x
    return out


def ppermute(x, lane, *, axis, size, sources):
    return x if sources[lane] >= 0 else 0 * x


# the table --------------------------------------------------------------------------------------


def softplus(x):
    return math.log1p(math.exp(x))


def iota(*, shape, axis, start, step, dtype, device):
    return gathered(shape, np.empty(0, dtype), lambda i: start + step * i[axis])


ELEMENTWISE = {
    "abs": each(math.fabs), "add": each(operator.add), "arccos": each(math.acos),
    "arccosh": each(math.acosh), "arcsin": each(math.asin), "arcsinh": each(math.asinh),
    "arctan": each(math.atan), "arctan2": each(math.atan2), "arctanh": each(math.atanh),
    "bitwise_and": whole(operator.and_), "bitwise_not": whole(operator.invert),
    "bitwise_or": whole(operator.or_), "bitwise_xor": whole(operator.xor),
    "ceil": each(math.ceil), "copysign": each(math.copysign), "cos": each(math.cos),
    "cosh": each(math.cosh), "digamma": each(digamma), "divide": each(operator.truediv),
    "equal": truth(operator.eq), "erf": each(math.erf), "erfc": each(math.erfc),
    "erfinv": (each(erfinv), 1e-10), "exp": each(math.exp), "exp2": each(lambda x: 2.0**x),
    "expm1": each(math.expm1), "floor": each(math.floor),
    "floor_divide": each(operator.floordiv), "fmod": each(math.fmod),
    "greater": truth(operator.gt), "greater_equal": truth(operator.ge),
    "hypot": each(math.hypot), "isfinite": truth(math.isfinite), "isinf": truth(math.isinf),
    "isnan": truth(math.isnan), "left_shift": whole(operator.lshift), "less": truth(operator.lt),
    "less_equal": truth(operator.le), "lgamma": each(math.lgamma), "log": each(math.log),
    "log10": each(math.log10), "log1p": each(math.log1p), "log2": each(math.log2),
    "logaddexp": each(lambda x, y: math.log(math.exp(x) + math.exp(y))),
    "logical_and": truth(lambda x, y: bool(x) and bool(y)), "logical_not": truth(operator.not_),
    "logical_or": truth(lambda x, y: bool(x) or bool(y)),
    "logical_xor": truth(lambda x, y: bool(x) != bool(y)), "maximum": each(max),
    "minimum": each(min), "multiply": each(operator.mul), "negative": each(operator.neg),
    "nextafter": (each(math.nextafter), 0.0), "not_equal": truth(operator.ne),
    "polygamma": each(polygamma), "power": each(math.pow), "reciprocal": each(lambda x: 1 / x),
    "relu": each(lambda x: max(x, 0.0)), "remainder": each(operator.mod),
    "right_shift": whole(operator.rshift), "round": each(round),
    "rsqrt": each(lambda x: 1 / math.sqrt(x)), "sigmoid": each(lambda x: 1 / (1 + math.exp(-x))),
    "sign": each(lambda x: math.copysign(1.0, x)),
    "signbit": truth(lambda x: math.copysign(1.0, x) < 0), "sin": each(math.sin),
    "sinh": each(math.sinh), "softplus": each(softplus), "sqrt": each(math.sqrt),
    "square": each(lambda x: x * x), "stop_gradient": each(lambda x: x),
    "subtract": each(operator.sub), "tan": each(math.tan), "tanh": each(math.tanh),
    "trigamma": each(lambda x: polygamma(1, x)), "trunc": each(math.trunc),
    "where": each(lambda c, x, y: x if c else y),
}  # fmt: skip

ORACLES = ATTENTION | CONTROL | ELEMENTWISE | FOURIER | MATRICES | RANDOM | SPECIAL | WINDOWS | {
    "all": reduced(all, bool), "all_gather": all_gather, "any": reduced(any, bool),
    "argmax": place(max), "argmin": place(min), "argsort": lines(ordered, np.int64),
    "astype": lambda x, *, dtype: gathered(x.shape, np.empty(0, dtype), lambda i: x[i]),
    "bitcast": lambda x, *, dtype: np.frombuffer(x.tobytes(), dtype).reshape(x.shape),
    "broadcast_to": broadcast_to, "concatenate": concatenate, "cummax": records(operator.gt),
    "cummin": records(operator.lt), "cumprod": accumulated(operator.mul),
    "conj": lambda x: x, "cumsum": accumulated(operator.add), "flip": flip,
    "elementary": lambda x, *, function: ELEMENTWISE[function](x),
    "device_put": lambda x, device: x, "redistribute": lambda x, **placed: x,
    "from_local": lambda x, **placed: x, "to_local": lambda x, **placed: x,
    "full": lambda *, shape, value, dtype, device: broadcast_to(
        np.asarray(value, dtype), shape=shape
    ),
    "iota": iota,
    "log_softmax": lines(lambda line: [v - logsumexp(line) for v in line]),
    "logcumsumexp": lines(
        from_either_end(lambda line: [logsumexp(line[: k + 1]) for k in range(len(line))])
    ),
    "logsumexp": reduced(logsumexp),
    "matmul": lambda x, y: np.einsum("...ij,...jk->...ik", x, y), "max": reduced(max),
    "min": reduced(min), "pad": pad,
    "complex": lambda x, y: x + 1j * y,
    "part": lambda x, *, turn: x * (1 - turn), "pmax": lambda x, *, axis, size: x,
    "pmin": lambda x, *, axis, size: x, "ppermute": ppermute, "prod": reduced(math.prod),
    "psum": lambda *xs, axis, size: tuple([sum([x] * size) for x in xs]),
    "all_to_all": all_to_all, "mesh_index": lambda *, axis, device: np.int64(0),
    "pbroadcast": pbroadcast, "psum_scatter": psum_scatter, "shard": shard, "unshard": unshard,
    "recurrence": lines(from_either_end(recurrence)),
    "reshape": lambda x, *, shape: np.asarray(list(x.flat)).reshape(shape),
    "ranked_indices": lambda x, ranks, *, axis, lost: lines(
        lambda line, at: [ordered(line, False)[int(i)] for i in at], np.int64
    )(x, ranks, axis=axis),
    "scatter": scatter, "scatter_along_axis": scatter_along_axis, "searchsorted": searchsorted,
    "slice": slice_,
    "softmax": lines(lambda line: [math.exp(v - logsumexp(line)) for v in line]),
    "sum": reduced(math.fsum), "sum_to": sum_to, "take": take,
    "take_along_axis": take_along_axis, "top_k_indices": top_k, "transpose": transpose,
    "divisor": lambda y: y, "wrap_index": lambda idx, *, size: idx % size,
}  # fmt: skip
