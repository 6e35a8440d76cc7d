"""What a pullback prints is printed in every call, whatever loop it is in and whatever needed."""

import itertools

import pytest

import fx

WHAT = {  # of the residual and the cotangent
    "cotangent": lambda x, ct: ("ct {:.3f}", ct.sum()),
    "residual": lambda x, ct: ("x {:.3f}", x.sum()),
    "both": lambda x, ct: ("{:.3f}", (x * ct).sum()),
    "words": lambda x, ct: ("here",),
}
LOOPS = {
    "python": lambda g, x: g(g(g(x))),
    "fori": lambda g, x: fx.fori_loop(0, 3, lambda i, v: g(v), x),
    "scan": lambda g, x: fx.scan(lambda c, _: (g(c), c), x, None, length=3)[0],
    "while": lambda g, x: fx.while_loop(lambda v: v[1] < 3, lambda v: (g(v[0]), v[1] + 1), (x, 0))[
        0
    ],
    "checkpoint": lambda g, x: fx.checkpoint(lambda v: g(g(v)))(x),
}
CALLS = {
    "gradient": lambda loss: fx.grad(loss),
    "value alone": lambda loss: lambda x: fx.value_and_grad(loss)(x)[0],
    "of a jitted one": lambda loss: fx.grad(fx.jit(loss)),
}


def _printing(what):
    @fx.custom_vjp
    def g(x):
        return fx.sin(x)

    def forward(x):
        return fx.sin(x), x

    def backward(x, ct):
        template, *values = WHAT[what](x, ct)
        fx.debug.print(template, *values)
        return (ct * fx.cos(x),)

    g.defvjp(forward, backward)
    return g


@pytest.mark.parametrize("loop, call", list(itertools.product(LOOPS, CALLS)))
@pytest.mark.parametrize("what", WHAT)
def test_what_a_pullback_prints(what, loop, call, capsys):
    g, x = _printing(what), fx.tensor([0.5, 1.0])
    plain = CALLS[call](lambda x: LOOPS[loop](g, x).sum())
    jitted = fx.jit(plain)
    python = CALLS[call](lambda x: LOOPS["python"](g, x).sum())
    (python if loop != "checkpoint" else plain)(x)
    want = capsys.readouterr().out.splitlines()
    assert len(want) == (2 if loop == "checkpoint" else 3)
    for way in (plain, jitted, jitted):
        way(x)
        assert capsys.readouterr().out.splitlines() == want
