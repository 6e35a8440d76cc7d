"""Each law on a rule that breaks it and little else: a law that cannot fail guards nothing."""

import random

import numpy as np
import pytest

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx.dtypes import float64
from fx.prims.factors import einsum
from fx.prims.families import elementwise_spec
from fx.prims.linear import matmul
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.testing import LAWS, LawBroken, draw, primitive

tanh, negative, multiply = elementwise.tanh, elementwise.negative, elementwise.multiply


def writes(a):
    return np.multiply(a, 2, out=a)


def in_memory_order(a):
    return np.tanh(a.ravel(order="K")).reshape(a.shape)


def coarse(a):
    return np.tanh(a.astype(np.float16)).astype(a.dtype) if a.dtype.itemsize == 4 else np.tanh(a)


def lifting(a):
    return np.tanh(a.astype(np.float64))


def constant_slope_jvp(primals, tangents):
    y = tanh(*primals)
    return y, tangents[0] * compare.stop_gradient(1.0 - y * y)


def constant_slope_vjp(needs, x):
    return lambda ct, y: (ct * compare.stop_gradient(1.0 - y * y),)


def lifting_jvp(primals, tangents):
    y = tanh(*primals)
    return y, compare.astype(tangents[0] * (1.0 - y * y), dtype=float64)


def lifting_vjp(needs, x):
    return lambda ct, y: (compare.astype(ct * (1.0 - y * y), dtype=float64),)


def twisted_vjp(needs, x, y):
    return lambda ct: (ct * y * 1.5, ct * x)


def reversed_lanes(original):
    def batch(level, args, dims):
        out, dim = original(level, args, dims)
        return shape_prims.flip(out, axes=(dim,)), dim

    return batch


def hoarding_vjp(needs, x):
    return lambda ct: (negative(ct), x)[:1]


def saving_vjp(needs, x):
    return lambda ct, y: (negative(ct),)


def circular_vjp(needs, x):
    def pullback(ct):
        return (ct if x is pullback else negative(ct),)

    return pullback


def vjp_of_the_tape(needs, x):
    doubled = 2.0 if type(x) is Tensor and x._node is not None else 1.0
    return lambda ct: (ct * -doubled,)


# law -> the primitive it is asked about, then what is replaced in which primitive
BREAKS = {
    "spec_is_the_kernel": (tanh, {tanh: {"spec": lambda x: x.with_(shape=(2, *x.shape))}}),
    "meta_is_the_kernel": (
        tanh,
        {tanh: {"kernels": {"meta": lambda x: TensorSpec((2, *x.shape), x.dtype, "meta")}}},
    ),
    "spec_over_dtypes": (
        elementwise.divide, {elementwise.divide: {"spec": elementwise_spec("divide")}}
    ),
    "spec_refuses": (
        matmul, {matmul: {"spec": lambda x, y: x.with_(shape=(*x.shape[:-1], y.shape[-1]))}}
    ),
    "precision": (tanh, {tanh: {"cpu": coarse}}),
    "purity": (negative, {negative: {"cpu": writes}}),
    "layout": (tanh, {tanh: {"cpu": in_memory_order}}),
    "jvp_is_the_difference": (tanh, {tanh: {"jvp": lambda p, t: (tanh(*p), t[0])}}),
    "dot_product": (multiply, {multiply: {"vjp": twisted_vjp}}),
    "jvp_of_jvp": (tanh, {tanh: {"jvp": constant_slope_jvp}}),
    "jvp_of_vjp": (tanh, {tanh: {"vjp": constant_slope_vjp}}),
    "vjp_of_vjp": (tanh, {multiply: {"vjp": twisted_vjp}}),
    "jvp_of_complex": (
        elementwise.abs,
        {elementwise.abs: {"jvp": lambda p, t: (elementwise.abs(*p), t[0] * elementwise.sign(*p))}},
    ),
    "dot_product_of_complex": (
        elementwise.abs,
        {elementwise.abs: {"vjp": lambda needs, x: lambda ct: (ct * elementwise.sign(x),)}},
    ),
    "jvp_keeps_dtype": (tanh, {tanh: {"jvp": lifting_jvp}}),
    "vjp_keeps_dtype": (tanh, {tanh: {"vjp": lifting_vjp}}),
    "vmap_is_the_loop": (multiply, {multiply: {"batch": reversed_lanes(multiply.batch)}}),
    "nested_vmap_is_the_loop": (multiply, {multiply: {"batch": reversed_lanes(multiply.batch)}}),
    "vmap_of_jvp": (tanh, {multiply: {"batch": reversed_lanes(multiply.batch)}}),
    "vmap_of_vjp": (tanh, {multiply: {"batch": reversed_lanes(multiply.batch)}}),
    "results_are_freed": (negative, {negative: {"vjp": circular_vjp}}),
    "residuals": (negative, {negative: {"vjp": hoarding_vjp}}),
    "parts_are_the_whole": (matmul, {matmul: {"sharding": einsum("...MK,...KN->...NM")}}),
    "addends_are_the_sum": (tanh, {tanh: {"sharding": einsum("...->...", (0,))}}),
    "tape_is_the_transform": (negative, {negative: {"vjp": vjp_of_the_tape}}),
}  # fmt: skip


def test_each_law_is_broken_here():
    assert sorted(BREAKS) == sorted(LAWS)


def check(law, primitive):
    for seed in range(20):
        law(primitive, draw(primitive, random.Random(seed)))


@pytest.mark.parametrize("name", BREAKS)
def test_a_law_can_fail(name, monkeypatch):
    law, (asked, replaced) = LAWS[name], BREAKS[name]
    check(law, asked)
    for prim, rules in replaced.items():
        for rule, value in rules.items():
            if rule == "kernels":
                value = prim.kernels | value
            monkeypatch.setattr(prim, rule, value)
    with pytest.raises(LawBroken) as error:
        check(law, asked)
    assert str(error.value).startswith(f"{asked.name}: {law.rule} breaks {law.says}\n")


def test_a_lifted_result_is_no_precision(monkeypatch):
    monkeypatch.setattr(tanh, "cpu", lifting)
    with pytest.raises(LawBroken, match="float32: output 0 is float64, expected float32"):
        check(LAWS["precision"], tanh)


def test_an_output_saved_for_nothing_is_found(monkeypatch):
    monkeypatch.setattr(negative, "vjp", saving_vjp)
    monkeypatch.setattr(negative, "saves", (0,))
    with pytest.raises(LawBroken, match="the pullback does not use output 0"):
        check(LAWS["residuals"], negative)


def test_a_cotangent_nobody_wants_is_found(monkeypatch):
    monkeypatch.setattr(multiply, "vjp", lambda needs, x, y: lambda ct: (ct * y, ct * x))
    with pytest.raises(LawBroken, match="a cotangent of argument 1, which wants none"):
        check(LAWS["dot_product"], multiply)


def test_a_law_says_nothing_where_it_does_not_apply():
    law = LAWS["dot_product"]
    assert not law.applies(compare.isnan)
    check(law, compare.isnan)


def test_a_rule_that_raises_is_named(monkeypatch):
    monkeypatch.setattr(tanh, "jvp", lambda primals, tangents: 1 / 0)
    with pytest.raises(LawBroken, match="tanh: jvp breaks J v = finite differences") as error:
        check(LAWS["jvp_is_the_difference"], tanh)
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert "ZeroDivisionError: division by zero" in error.value.details
    assert primitive("tanh") is tanh
