"""Every rule of every primitive, broken in several ways: the law on guard says so by name."""

import random

import numpy as np
import pytest

import fx.prims.shape as shape_prims
from fx import dtypes
from fx.primitive import NOT_DIFFERENTIABLE
from fx.spec import TensorSpec
from fx.testing import LAWS, LawBroken, all_primitives, draw
from tests.laws.test_oracles import oracle_law

PRIMITIVES = all_primitives()
GUARD = {
    "spec": lambda name: LAWS["spec_is_the_kernel"],
    "cpu": oracle_law,
    "jvp": lambda name: LAWS["jvp_is_the_difference"],
    "vjp": lambda name: LAWS["dot_product"],
    "batch": lambda name: LAWS["vmap_is_the_loop"],
}


def first(result, change):
    """The result with its first output changed."""
    if isinstance(result, list | tuple):
        return (change(result[0]), *result[1:])
    return change(result)


# spec -------------------------------------------------------------------------------------------


def _other_dtype(spec):
    return spec.with_(dtype=dtypes.int16 if spec.dtype == dtypes.int8 else dtypes.int8)


SPEC = {
    "another dtype": lambda rule: lambda *s, **p: first(rule(*s, **p), _other_dtype),
    "an axis more": lambda rule: (
        lambda *s, **p: first(rule(*s, **p), lambda spec: spec.with_(shape=(1, *spec.shape)))
    ),
    "another device": lambda rule: (
        lambda *s, **p: first(
            rule(*s, **p), lambda spec: TensorSpec(spec.shape, spec.dtype, "meta")
        )
    ),
    "another number of outputs": lambda rule: lambda *s, **p: _more(rule(*s, **p)),
}


def _more(out):
    return (*out, out[0]) if isinstance(out, tuple) else (out, out)


# kernel -----------------------------------------------------------------------------------------


def _perturbed(a):
    a = np.asarray(a)
    if a.dtype == bool:
        return ~a
    return a * a.dtype.type(1.001) if a.dtype in dtypes.INEXACT else a + a.dtype.type(1)


CPU = {
    "off by 1 part in 1000": lambda rule: lambda *a, **p: first(rule(*a, **p), _perturbed),
    "an axis more": lambda rule: (
        lambda *a, **p: first(rule(*a, **p), lambda out: np.asarray(out)[None])
    ),
}


# derivatives ------------------------------------------------------------------------------------


def _off(t):
    return None if t is None else t * 1.01 + 0.01


def _jvp(change_out=None, change_tangent=None):
    def mutate(rule):
        def jvp(primals, tangents, **p):
            out, tangent = rule(primals, tangents, **p)
            if change_out:
                out = first(out, change_out)
            return out, first(tangent, change_tangent) if change_tangent else tangent

        return jvp

    return mutate


JVP = {
    "a tangent that is off": _jvp(change_tangent=_off),
    "a tangent of another shape": _jvp(
        change_tangent=lambda t: t if t is None else shape_prims.reshape(t, shape=(1, *t.shape))
    ),
    "another primal result": _jvp(change_out=lambda x: x * 1.01 + 0.01),
}


def _vjp(change):
    def mutate(rule):
        def vjp(needs, *args, **p):
            pullback = rule(needs, *args, **p)
            return pullback and (lambda *cts: change(list(pullback(*cts)), needs))

        return vjp

    return mutate


def _one_off(grads, needs):
    """The last cotangent that is there."""
    i = max([k for k, g in enumerate(grads) if g is not None])
    return [_off(g) if k == i else g for k, g in enumerate(grads)]


VJP = {
    "a cotangent that is off": _vjp(_one_off),
    "a cotangent missing": _vjp(lambda grads, needs: [None] * len(grads)),
    "a cotangent too many": _vjp(lambda grads, needs: [*grads, None]),
    "a cotangent of another shape": _vjp(
        lambda grads, needs: [
            g if g is None else shape_prims.reshape(g, shape=(1, *g.shape)) for g in grads
        ]
    ),
}


# batch ------------------------------------------------------------------------------------------


def _batch(change):
    def mutate(rule):
        def batch(level, args, dims, **p):
            out, dim = rule(level, args, dims, **p)
            if not isinstance(out, tuple):
                return change(out, dim)
            changed, place = change(out[0], dim[0])
            return (changed, *out[1:]), (place, *dim[1:])

        return batch

    return mutate


def _reversed(x, d):
    return (x, d) if d is None else (shape_prims.flip(x, axes=(d,)), d)


BATCH = {
    "lanes reversed": _batch(_reversed),
    "lanes along another axis": _batch(lambda x, d: (x, None if d is None else (d + 1) % x.ndim)),
    "the first lane for all": _batch(lambda x, d: (_lane(x, d), None)),
}


def _lane(x, d):
    if d is None:
        return x
    stop = [1 if i == d else n for i, n in enumerate(x.shape)]
    one = shape_prims.slice(x, start=(0,) * x.ndim, stop=tuple(stop), step=(1,) * x.ndim)
    return shape_prims.reshape(one, shape=tuple([n for i, n in enumerate(x.shape) if i != d]))


# the test ---------------------------------------------------------------------------------------

MUTATIONS = {"spec": SPEC, "cpu": CPU, "jvp": JVP, "vjp": VJP, "batch": BATCH}
REFUSES = {
    "decomposition",
    "generalized_schur",
    "cossin",
}  # derivatives, by name: there is nothing to break
REMOVED = {"removed": lambda rule: None}
CASES = [
    (p, rule)
    for p in PRIMITIVES.values()
    for rule in MUTATIONS
    if getattr(p, rule) is not NOT_DIFFERENTIABLE
    and not (p.name in REFUSES and rule in ("jvp", "vjp"))
]


def first_broken(law, primitive, samples):
    for sample in samples:
        try:
            law(primitive, sample)
        except LawBroken as error:
            return error
    return None


@pytest.mark.parametrize(("primitive", "rule"), CASES, ids=[f"{p.name}-{r}" for p, r in CASES])
def test_a_broken_rule_is_named(primitive, rule, monkeypatch):
    samples = [draw(primitive, random.Random(seed)) for seed in range(40)]
    law = GUARD[rule](primitive.name)
    original = getattr(primitive, rule)
    mutations = MUTATIONS[rule] | REMOVED
    if rule == "batch" and not samples[0].args:  # never batched: any answer is wrong
        mutations = {"an answer": lambda rule: lambda *args, **params: (None, 0)} | REMOVED
    for name, mutate in mutations.items():
        with monkeypatch.context() as patch:
            mutated = mutate(original)
            patch.setattr(primitive, rule, mutated)
            if rule == "cpu":
                patch.setitem(primitive.kernels, "cpu", mutated)
            error = first_broken(law, primitive, samples)
        assert error is not None, f"{primitive.name}: {rule} with {name} breaks no law"
        assert (error.primitive, error.rule) == (primitive.name, rule)
        assert str(error).startswith(f"{primitive.name}: {rule} breaks ")
    assert first_broken(law, primitive, samples[:3]) is None
