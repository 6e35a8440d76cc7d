"""Reference functions for control flow: Python loops over NumPy versions of the sampled bodies."""

import numpy as np

BODIES = {
    "decay": lambda c, x, w: (np.sin(c) * w + x, c * x),
    "turn": lambda a, b, x, w: (b, np.cos(a * b + x * w), np.sin(x)),
    "counted": lambda c, n, x, w: (np.tanh(c + w) + x, 2 * n, n, w**2),
    "product": lambda x, y, n: (np.sin(x * y), n, np.exp(x)),
    "sum_of_two": lambda x, y, n: (x + np.sin(np.cos(y)), 2 * n, x**2),
    "second": lambda x, y, n: (y, n**2, np.sin(y) * x**2),
    "below": lambda x, i, n: i < n,
    "stepped": lambda x, i, w: (np.sin(x) + w, i + 1),
}


def scan(*args, body, carries, mapped, length, reverse, checkpoint):
    function = BODIES[body.name]
    carry, rows, rest = args[:carries], args[carries : carries + mapped], args[carries + mapped :]
    found = [None] * length
    for i in reversed(range(length)) if reverse else range(length):
        out = function(*carry, *[x[i] for x in rows], *rest)
        carry, found[i] = out[:carries], out[carries:]
    return (*carry, *[np.stack(column) for column in zip(*found, strict=True)])


def cond(index, *operands, branches):
    return BODIES[branches[np.clip(int(index), 0, len(branches) - 1)].name](*operands)


def while_(*args, condition, body, carries, read):
    carry, first, rest = args[:carries], args[carries : carries + read], args[carries + read :]
    while BODIES[condition.name](*carry, *first):
        carry = BODIES[body.name](*carry, *rest)
    return tuple(carry)


def unstack(x, *, axis):
    return tuple(np.moveaxis(x, axis, 0))


def stack(*xs, axis):
    return np.moveaxis(np.array(xs), 0, axis)


CONTROL = {"scan": scan, "cond": cond, "while": while_, "unstack": unstack, "stack": stack}
