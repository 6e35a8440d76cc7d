"""What ``define`` refuses, and what ``check_primitive`` tells whoever adds a primitive."""

import math

import numpy as np
import pytest

from fx.errors import RegistrationError
from fx.primitive import NOT_DIFFERENTIABLE, define, registry
from fx.prims.sampling import Sample
from fx.testing import LawBroken, check_primitive, grid, primitive


@pytest.fixture
def scratch():
    """Names that are taken out of the registry afterwards."""
    before = set(registry)
    yield
    for name in set(registry) - before:
        del registry[name]


def rules(name="cube"):
    """A complete and right set of rules."""

    def jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        return registry[name](x), t * x * x * 3.0

    return {
        "spec": lambda x: x,
        "cpu": lambda a: a * a * a,
        "jvp": jvp,
        "vjp": lambda needs, x: lambda ct: (ct * x * x * 3.0,),
        "batch": lambda level, args, dims: (registry[name](*args), dims[0]),
        "sample": lambda d: Sample([d.floats(d.shape())]),
    }


@pytest.mark.parametrize("rule", ["spec", "cpu", "jvp", "vjp", "batch", "sample"])
@pytest.mark.parametrize("value", ["left out", None, 3])
def test_a_missing_rule_is_refused(rule, value, scratch):
    given = rules()
    if value == "left out":
        del given[rule]
    else:
        given[rule] = value
    with pytest.raises(RegistrationError) as error:
        define("cube", **given)
    word = r" (or the word NOT_DIFFERENTIABLE)" if rule in ("jvp", "vjp") else ""
    assert str(error.value) == (
        f"primitive 'cube' lacks its {rule} rule{word}; see fx/prims/README.md"
    )
    assert "cube" not in registry


@pytest.mark.parametrize("rule", ["spec", "cpu", "batch", "sample"])
def test_only_derivatives_may_be_declared_missing(rule, scratch):
    with pytest.raises(RegistrationError, match=f"lacks its {rule} rule; see"):
        define("cube", **rules() | {rule: NOT_DIFFERENTIABLE})


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_one_derivative_without_the_other_is_refused(rule, scratch):
    with pytest.raises(RegistrationError, match="'cube' must give both jvp and vjp, or neither"):
        define("cube", **rules() | {rule: NOT_DIFFERENTIABLE})


def test_a_name_is_given_once(scratch):
    define("cube", **rules())
    with pytest.raises(RegistrationError, match="a primitive named 'cube' exists already"):
        define("cube", **rules())


def test_a_right_primitive_passes(scratch, capsys):
    cube = define("cube", **rules())
    check_primitive(cube, examples=5, oracle=np.vectorize(lambda x: x**3))
    assert primitive("cube") is cube
    assert grid([cube], length=2) == {}
    assert capsys.readouterr().out.splitlines() == [
        "grad, jvp, vmap, backward, jit; read downwards, the outermost transform first",
        "      gjvbc gggggjjjjjvvvvvbbbbbccccc",
        "            gjvbcgjvbcgjvbcgjvbcgjvbc",
        "cube  ..... .........................",
    ]


WRONG = {
    "spec": lambda x: x.with_(shape=(*x.shape, 1)),
    "cpu": lambda a: a * a * a * a.dtype.type(1.001),
    "jvp": lambda primals, tangents: (registry["cube"](*primals), tangents[0] * primals[0] * 3.0),
    "vjp": lambda needs, x: lambda ct: (ct * x * x * 2.0,),
    "batch": lambda level, args, dims: (registry["cube"](*args), 0),
    "sample": lambda d: Sample([d.floats(d.shapes())]),
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_wrong_rule_is_named(rule, scratch):
    given = rules() | {rule: WRONG[rule]}
    if rule == "cpu":  # derivatives that are wrong in the same way: only the oracle can tell
        given["jvp"] = lambda primals, tangents: (
            registry["cube"](*primals),
            tangents[0] * primals[0] * primals[0] * 3.003,
        )
        given["vjp"] = lambda needs, x: lambda ct: (ct * x * x * 3.003,)
    cube = define("cube", **given)
    with pytest.raises(LawBroken, match=f"^cube: {rule} breaks ") as error:
        check_primitive(cube, examples=12, oracle=lambda x: np.vectorize(math.pow)(x, 3.0))
    assert (error.value.primitive, error.value.rule) == ("cube", rule)


def test_a_hole_in_the_grid_is_shown(scratch, capsys):
    cube = define("cube", **rules() | {"vjp": WRONG["vjp"]})
    holes = grid([cube], length=1)
    assert capsys.readouterr().out.splitlines()[-1] == "cube  x..x."
    assert list(holes["cube"]) == ["g", "b"]
    assert str(holes["cube"]["g"]).startswith("cube: vjp breaks the word grad(f)")
