"""Every word of up to three letters over {grad, jvp, vmap, backward}, on every primitive."""

import os
import random

import pytest

from fx import limits
from fx.testing import all_primitives, broken_words, draw, words
from fx.testing.words import subject_of

PRIMITIVES = all_primitives()
THOROUGH = os.environ.get("FX_HYPOTHESIS") == "thorough"


def few_of_each_family():
    """The last of each file, with slopes and without, and kinds that a table has."""
    families = {}
    for name, primitive in PRIMITIVES.items():
        rules = [primitive.spec.__module__, callable(primitive.vjp)]
        families.setdefault(tuple(rules), []).append(name)
    last = {names[-1] for names in families.values()}
    return last | {"divide", "matmul", "max", "power", "sin", "softmax", "take", "tanh"}


FULL = set(PRIMITIVES) if THOROUGH else few_of_each_family()


def words_for(name):
    """All words up to three letters, two where others have the rules; every fifth of a loop's."""
    if name not in FULL:
        return words(2)
    return words(3) if THOROUGH or name != "while" else [*words(2), *words(3)[30::5]]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_word_holds(name):
    broken = broken_words(PRIMITIVES[name], only=words_for(name))
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("seed", range(2 if THOROUGH else 1))
def test_short_words_hold_elsewhere(name, seed):
    subject = subject_of(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))
    broken = broken_words(PRIMITIVES[name], length=2, subject=subject)
    assert not broken, "\n".join(map(str, broken.values()))


# draws have no derivative, and load another compiler under tiny limits
@pytest.mark.parametrize("name", [n for n in PRIMITIVES if not n.startswith("random_")])
def test_compiled_words_hold_under_tiny_limits(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(name), stretch=2)
        subject = subject_of(PRIMITIVES[name], sample)
        broken = broken_words(PRIMITIVES[name], subject=subject, only=("cg", "cv", "gc", "jc"))
    assert not broken, "\n".join(map(str, broken.values()))
