"""Values and derivatives against ``jax.lax``, in float64; staged and compiled as eagerly."""

import pytest

import fx
from tests.transforms.control import cases
from tests.transforms.control.words import POINT, Ours, applied, values
from tests.transforms.oracle import array, same

SMOOTH = pytest.mark.parametrize("case", cases.SMOOTH, ids=lambda c: c.__name__)
FORWARD = pytest.mark.parametrize("case", cases.FORWARD, ids=lambda c: c.__name__)


def ours(case, word):
    return array(applied(Ours, word, case(fx, fx), fx.tensor)(fx.tensor(POINT)))


@SMOOTH
@pytest.mark.parametrize("word", ["", "g", "vg"])
def test_against_jax(case, word):
    same(*values(case, word))


@FORWARD
@pytest.mark.parametrize("word", ["", "j", "vj"])
def test_loops_of_unknown_length_forwards(case, word):
    same(*values(case, word))


@SMOOTH
def test_rules_of_the_primitives(case):
    """The staged graph, transformed by the rules, gives what the Python loop gives."""
    for word in ("", "g", "j", "v", "gg", "jg", "gj", "vg", "gv", "jv", "gvg"):
        same(ours(case, word + "s"), ours(case, word), rtol=1e-8)


@SMOOTH
def test_staged_after_transforms(case):
    for word in ("g", "v", "jg", "gv"):
        same(ours(case, "s" + word), ours(case, word), rtol=1e-8)


@pytest.mark.parametrize(
    "case", [cases.scan_tree, cases.scan_in_scan, cases.cond_closed, cases.switched],
    ids=lambda c: c.__name__,
)  # fmt: skip
def test_compiled(case):
    same(ours(case, "c"), ours(case, ""))
    same(ours(case, "cvg"), ours(case, "vg"))
    same(ours(case, "gc"), ours(case, "g"))


@FORWARD
def test_going_back_through_a_loop_of_unknown_length(case):
    """JAX refuses; the oracle is forward mode."""
    f, x = case(fx, fx), fx.tensor(POINT)
    staged = applied(Ours, "s", f, fx.tensor)
    forwards = fx.jacfwd(f)(x)
    same(fx.jacrev(f)(x), forwards)
    same(fx.jacrev(staged)(x), forwards)
    same(applied(Ours, "s", fx.jacrev(f), fx.tensor)(x), forwards)
    same(fx.vmap(fx.jacrev(f))(x[None])[0], forwards)
    same(fx.jacrev(fx.vmap(f))(x[None])[0, :, 0], forwards)
    for word in ("gg", "gv"):
        same(ours(case, "s" + word), ours(case, word))
