"""Words of up to three letters over {grad, jvp, vmap, backward, jit}, on every primitive."""

import random

import pytest

from fx import limits
from fx.testing import all_primitives, broken_words, draw, words
from fx.testing.words import subject_of
from tests.thorough import THOROUGH

PRIMITIVES = all_primitives()
KINDS = {"divide", "matmul", "max", "power", "sin", "softmax", "take", "tanh"}


def of_each_family():
    """The last primitive of each file with slopes, and the last without."""
    families = {}
    for name, primitive in PRIMITIVES.items():
        families[primitive.spec.__module__, callable(primitive.vjp)] = name
    return list(families.values())


FAMILIES = of_each_family()
SHORT, LONG = words(2), words(3)[len(words(2)) :]
PLAIN = [word for word in LONG if "c" not in word]
STAGED = [word for word in LONG if "c" in word]  # each compiles graphs of its own, which is slow


def words_for(name):
    """All words on a few kinds; words of two letters on every primitive.

    One of each family has those of three letters too: all without jit, and every fifth with it, at
    each family another fifth, so that each word meets several families.
    """
    if THOROUGH or name in KINDS:
        return words(3)
    if name not in FAMILIES:
        return SHORT
    return [*SHORT, *PLAIN, *STAGED[FAMILIES.index(name) % 5 :: 5]]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_word_holds(name):
    broken = broken_words(PRIMITIVES[name], only=words_for(name))
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("seed", range(2 if THOROUGH else 1))
def test_short_words_hold_elsewhere(name, seed):
    """Words with jit meet other samples below, and jit alone in ``test_compiled.py``."""
    subject = subject_of(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))
    only = [word for word in SHORT if THOROUGH or "c" not in word]
    broken = broken_words(PRIMITIVES[name], subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))


# draws have no derivative, and load another compiler under tiny limits
@pytest.mark.parametrize("name", [n for n in PRIMITIVES if not n.startswith("random_")])
def test_compiled_words_hold_under_tiny_limits(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(name), stretch=2)
        subject = subject_of(PRIMITIVES[name], sample)
        broken = broken_words(PRIMITIVES[name], subject=subject, only=("cg", "cv", "gc", "jc"))
    assert not broken, "\n".join(map(str, broken.values()))
