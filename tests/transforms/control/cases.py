"""Functions with control flow, written once for fx and for JAX: ``case(xp, lax)(x) -> vector``.

``x`` is float64 (3,), every element in (0.2, 1.5).
"""


def scan_sums(xp, lax):
    def f(x):
        last, ys = lax.scan(lambda c, a: (xp.sin(c) * a, c * c), x[0], x)
        return xp.concat([last[None], ys])

    return f


def scan_tree(xp, lax):
    def f(x):
        def step(c, row):
            h = xp.tanh(c["h"] + row["a"] * row["b"])
            return {"h": h, "n": c["n"] + 1}, (h * c["n"], row["a"])

        rows = {"a": xp.stack([x, x * 2, x * x]), "b": x}
        carry, (ys, zs) = lax.scan(step, {"h": x, "n": 0}, rows, reverse=True)
        return carry["h"] + ys.sum(axis=0) + zs[1] * carry["n"]

    return f


def scan_weights(xp, lax):
    """Closes over what it multiplies by in every run."""

    def f(x):
        w = xp.stack([x, xp.cos(x), x - 1.0])

        def step(h, a):
            h = xp.tanh(w @ h + a)
            return h, h.sum()

        h, ys = lax.scan(step, x, xp.stack([x, x + 1.0, x * x, x]))
        return h * ys[2] + w[1]

    return f


def scan_in_scan(xp, lax):
    def f(x):
        def outer(c, a):
            inner, ys = lax.scan(lambda d, b: (d * b + xp.sin(a), d), c, x)
            return inner, ys[0] * a

        last, ys = lax.scan(outer, x[1], x)
        return ys + last

    return f


def scan_length(xp, lax):
    def f(x):
        last, none = lax.scan(lambda c, _: (xp.cos(c), None), x, None, length=4)
        assert none is None
        return last

    return f


def scan_empty(xp, lax):
    def f(x):
        last, ys = lax.scan(lambda c, a: (c * a, c), x, x[:0])
        return last + ys.sum()

    return f


def fori(xp, lax):
    return lambda x: lax.fori_loop(1, 5, lambda i, c: xp.sin(c) * i + x, x)


def fori_none(xp, lax):
    return lambda x: lax.fori_loop(3, 3, lambda i, c: c * i, x) * 2


def cond_closed(xp, lax):
    """Closes over the values; the branch not taken would give NaN."""

    def f(x):
        total = x.sum()
        return lax.cond(
            total > 2.0, lambda: xp.sqrt(total - 2.0) * x, lambda: xp.log(3.0 - total) * x * x
        )

    return f


def cond_operands(xp, lax):
    def f(x):
        pair = lax.cond(
            x[0] < 0.8, lambda a, b: (a * b["c"], b["c"]), lambda a, b: (b["c"] + 1.0, xp.exp(a)),
            x, {"c": xp.cos(x)},
        )  # fmt: skip
        return pair[0] * pair[1]

    return f


def switched(xp, lax):
    def f(x):
        index = (x[0] * 4.0).astype(xp.int32) - 1
        branches = [lambda a: a * a, xp.sin, lambda a: a[::-1] * x[1], lambda a: a * 0.0 + 1.0]
        return lax.switch(index, branches, x) + x

    return f


def while_scan(xp, lax):
    """A cond in a fori_loop in a scan."""

    def f(x):
        def step(c, a):
            grown = lax.fori_loop(
                0, 3, lambda i, d: lax.cond(d[0] > 1.0, lambda d: d * a, lambda d: d + a, d), c
            )
            return xp.sin(grown), grown.sum()

        last, ys = lax.scan(step, x, x)
        return last * ys

    return f


def mapped(xp, lax):
    return lambda x: lax.map(lambda a: xp.sin(a) * x[0], x)


def mapped_in_batches(xp, lax):
    return lambda x: lax.map(lambda a: xp.sin(a) * x[0], x, batch_size=2)


def prefixes(xp, lax):
    def f(x):
        def combine(a, b):
            return a[0] * b[0], a[1] * b[0] + b[1]

        five = xp.concat([x, x[:2]])
        a, b = lax.associative_scan(combine, (five, xp.sin(five)))
        c = lax.associative_scan(lambda a, b: a * b, xp.stack([x, x], axis=1), reverse=True)
        return a[2:] + b[:3] + c[:, 0]

    return f


def while_counted(xp, lax):
    """As many runs as a value of ``x`` says; forward mode only."""

    def f(x):
        def going(v):
            return v[0] < 3.0

        def step(v):
            return v[0] + x[0], xp.sin(v[1]) + x

        return lax.while_loop(going, step, (x[1], x))[1]

    return f


def fori_dynamic(xp, lax):
    """A bound that is a value; forward mode only."""

    def f(x):
        n = (x[0] * 4.0).astype(xp.int32)
        return lax.fori_loop(0, n, lambda i, c: xp.cos(c) * x, x)

    return f


SMOOTH = [
    scan_sums, scan_tree, scan_weights, scan_in_scan, scan_length, scan_empty, fori, fori_none,
    cond_closed, cond_operands, switched, while_scan, mapped, mapped_in_batches, prefixes,
]  # fmt: skip
FORWARD = [while_counted, fori_dynamic]
