"""Words of up to three letters over {grad, jvp, vmap, backward, jit}, on every primitive."""

import random
from collections import Counter

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
    """Words of two letters on every primitive, some of those with jit, and longer ones on some.

    On a few kinds those are all words of three letters, every other if with jit. On one primitive
    of each family they are every third word without jit, every twentieth with it, and every other
    of two letters with it; elsewhere of those one in six. Where a list begins turns with the number
    of the primitive: so each word meets several kinds and families.
    """
    if THOROUGH:
        return words(3)
    if name in KINDS:
        return [*SHORT, *PLAIN, *STAGED[sorted(KINDS).index(name) % 2 :: 2]]
    if name not in FAMILIES:
        return [*SHORT_PLAIN, *SHORT_STAGED[NUMBERS[name] % 6 :: 6]]
    turn = FAMILIES.index(name)
    staged = [*SHORT_STAGED[turn % 2 :: 2], *STAGED[turn % 20 :: 20]]
    return [*SHORT_PLAIN, *PLAIN[turn % 3 :: 3], *staged]


def test_every_word_meets_several_primitives():
    met = Counter(word for name in PRIMITIVES for word in words_for(name))
    assert set(met) == set(words(3)) and min(met.values()) >= 4
    tiny = Counter(TINY[NUMBERS[name] % 4] for name in PRIMITIVES)
    assert set(tiny) == set(TINY) and min(tiny.values()) >= 40


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_word_holds(name):
    broken = broken_words(PRIMITIVES[name], only=words_for(name))
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("seed", range(2 if THOROUGH else 1))
def test_short_words_hold_elsewhere(name, seed):
    """Words with jit meet other samples below, and jit alone in ``test_compiled.py``."""
    subject = subject_of(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))
    some = SHORT_PLAIN if stands_for_others(name) else SHORT_PLAIN[NUMBERS[name] % 2 :: 2]
    only = SHORT if THOROUGH else some
    broken = broken_words(PRIMITIVES[name], subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))


# draws have no derivative, and load another compiler under tiny limits
@pytest.mark.parametrize("name", [n for n in PRIMITIVES if not n.startswith("random_")])
def test_compiled_words_hold_under_tiny_limits(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(name), stretch=2)
        subject = subject_of(PRIMITIVES[name], sample)
        many = THOROUGH or name in KINDS
        turn = NUMBERS[name] % 4
        only = TINY if many else TINY[turn % 2 :: 2] if name in FAMILIES else TINY[turn : turn + 1]
        broken = broken_words(PRIMITIVES[name], subject=subject, only=only)
    assert not broken, "\n".join(map(str, broken.values()))
