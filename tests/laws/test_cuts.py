"""Sharding rules leave nothing out: every way to cut every operand is tried on samples."""

import random
from dataclasses import replace

import pytest

from fx.prims.factors import WHOLE, alike, chunk, einsum, factors_of
from fx.spec import TensorSpec
from fx.testing import LAWS, LawBroken, all_primitives, draw
from fx.testing.cuts import missed, missed_groups

_BODY = "what may be cut is up to the graphs in its parameters"
_RANKS = "it is about the ranks of another axis"
EXPLAINED = {  # what could be cut, or is linear, in every sample, and why the rule says nothing
    "attention_grad": "one head of k and v gets addends from all heads of q, whose parts are parts",
    "cond": _BODY,
    "nextafter": "the next number is the number itself, up to rounding",
    "scan": _BODY,
    "shard": _RANKS,
    "verified": "what one number of info says is raised by all ranks",
    "while": _BODY,
    "xlog1py": "0 * log(0) is 0, which addends of 0 do not know",
    "xlogy": "0 * log(0) is 0, which addends of 0 do not know",
}
CASES = [p for p in all_primitives().values() if not p.effectful]


def samples(primitive, count=60):
    return [draw(primitive, random.Random(seed)) for seed in range(count)]


@pytest.mark.parametrize("primitive", CASES, ids=[p.name for p in CASES])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_rule_leaves_nothing_out(primitive):
    drawn = samples(primitive)
    left_out = missed(primitive, drawn) + missed_groups(primitive, drawn)
    assert bool(left_out) == (primitive.name in EXPLAINED), left_out


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_rule_leaves_out_is_found(monkeypatch):
    softmax, matmul = (all_primitives()[name] for name in ("softmax", "matmul"))
    monkeypatch.setattr(softmax, "sharding", einsum("*->*"))
    assert "axis 0 of operand 0 of 2 axes" not in missed(softmax, samples(softmax))  # where axis=0
    assert missed(softmax, [s for s in samples(softmax) if s.params["axis"]])
    monkeypatch.setattr(matmul, "sharding", einsum("..._K,...KN->..._N"))
    assert "axis 0 of operand 0 of 2 axes" in missed(matmul, samples(matmul))
    assert missed_groups(matmul, samples(matmul)) == ["operand 0", "operand 1"]


def _one_more(told):
    """With an axis that must be whole as a factor, in every operand and result that has one."""
    cut = lambda names: tuple([n.replace(WHOLE, "x", 1) for n in names])
    return replace(told, operands=cut(told.operands), results=cut(told.results))


@pytest.mark.parametrize(
    "name",
    [
        "softmax",
        "cumsum",
        "argsort",
        "fft",
        "conv",
        "cholesky",
    ],
)
def test_an_axis_that_must_be_whole_is_no_factor(name, monkeypatch):
    primitive, law = all_primitives()[name], LAWS["parts_are_the_whole"]
    rule = primitive.sharding
    monkeypatch.setattr(primitive, "sharding", lambda *s, **p: _one_more(rule(*s, **p)))
    with pytest.raises(LawBroken, match=f"^{name}: sharding breaks"):
        for sample in samples(primitive, 40):
            law(primitive, sample)


def test_parts_are_those_of_torch():
    import torch

    for size in range(8):
        for count in (1, 2, 3, 5):
            parts = [chunk(size, count, i) for i in range(count)]
            want = [len(c) for c in torch.arange(size).chunk(count)] if size else []
            assert [b - a for a, b in parts] == want + [0] * (count - len(want))
    assert alike([6, 2, 4], 2) and not alike([6, 3], 2) and alike([0, 0], 3)


def spec(*shape):
    return TensorSpec(shape, "float32")


def test_rules_say_what_is_cut():
    matmul, reshape = (all_primitives()[name] for name in ("matmul", "reshape"))
    told = factors_of(matmul, [spec(5, 2, 3), spec(3, 4)], {})
    assert (told.operands, told.results) == (("aMK", "KN"), ("aMN",))
    assert told.summed("K") and not told.summed("a")
    told = factors_of(reshape, [spec(6, 1, 4)], {"shape": (2, 3, 4)})
    assert (told.operands, told.results) == (("a_b",), ("a_b",))
