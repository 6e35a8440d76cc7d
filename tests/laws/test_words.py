"""Words of up to three letters over {grad, jvp, vmap, backward, jit}, on every primitive."""

import random

import pytest

from fx import limits
from fx.testing import broken_words, draw, words
from fx.testing.words import subject_of
from tests.laws.samples import FAMILIES, KINDS, NUMBERS, PRIMITIVES, stands_for_others
from tests.thorough import THOROUGH

SHORT, LONG = words(2), words(3)[len(words(2)) :]
PLAIN = [word for word in LONG if "c" not in word]
STAGED = [word for word in LONG if "c" in word]  # each compiles graphs of its own, which is slow
SHORT_PLAIN = [word for word in SHORT if "c" not in word]
SHORT_STAGED = [word for word in SHORT if "c" in word]
TINY = ("cv", "cg", "gc", "jc")


def words_for(name):
    """All words on a few kinds; words of two letters on every primitive, every other if with jit.

    With those under tiny limits below, each rule of each primitive is compiled. One of each family
    has the words of three letters too: all without jit, and every tenth with it, at each family
    another tenth, so that each word meets several families.
    """
    if THOROUGH or name in KINDS:
        return words(3)
    if name not in FAMILIES:
        return [*SHORT_PLAIN, *SHORT_STAGED[NUMBERS[name] % 2 :: 2]]
    return [*SHORT, *PLAIN, *STAGED[FAMILIES.index(name) % 10 :: 10]]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_word_holds(name):
    broken = broken_words(PRIMITIVES[name], only=words_for(name))
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("seed", range(2 if THOROUGH else 1))
def test_short_words_hold_elsewhere(name, seed):
    """Words with jit meet other samples below, and jit alone in ``test_compiled.py``."""
    subject = subject_of(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))
    only = SHORT if THOROUGH else SHORT_PLAIN
    broken = broken_words(PRIMITIVES[name], subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))


# draws have no derivative, and load another compiler under tiny limits
@pytest.mark.parametrize("name", [n for n in PRIMITIVES if not n.startswith("random_")])
def test_compiled_words_hold_under_tiny_limits(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(name), stretch=2)
        subject = subject_of(PRIMITIVES[name], sample)
        only = TINY if stands_for_others(name) else TINY[NUMBERS[name] % 2 :: 2]
        broken = broken_words(PRIMITIVES[name], subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))
