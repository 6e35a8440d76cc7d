"""Elementary functions by one kernel at every size, as samplers need them.

Other functions may have another kernel, and other last bits, for many elements than for few. Lanes
of draws have the bits of a loop, whose arrays are smaller.
"""

from functools import partial

from fx.primitive import define, registry
from fx.prims.families import same_dim_batch
from fx.prims.sampling import Sample

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sin")


def _vjp(needs, x, *, function):
    of = registry[function]
    pullback = of.vjp(needs, x)
    return pullback if of.saves else lambda ct, y: pullback(ct)


def _jvp(primals, tangents, *, function):
    y = elementary(*primals, function=function)
    (tangent,) = _vjp((True,), *primals, function=function)(tangents[0], y)  # of one element: f'
    return y, tangent


elementary = define(
    "elementary", kind="elementwise", weight=14,
    spec=lambda x, *, function: registry[function].spec(x),
    formula=lambda x, *, function: registry[function](x), dissolves=True,
    jvp=_jvp, vjp=_vjp, saves=(0,),
    batch=same_dim_batch(lambda: elementary),
    sample=lambda d: Sample([d.floats(d.shape(), 0.2, 2.0)], {"function": d.choice(FUNCTIONS)}),
)  # fmt: skip
exp, expm1, log, log1p, sin = [partial(elementary, function=name) for name in FUNCTIONS]
