"""Every word of up to three letters over {grad, jvp, vmap, backward}, on every primitive."""

import random

import pytest

from fx import limits
from fx.testing import all_primitives, broken_words, draw
from fx.testing.words import subject_of

PRIMITIVES = all_primitives()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_every_word_holds(name):
    broken = broken_words(PRIMITIVES[name])
    assert not broken, "\n".join(map(str, broken.values()))


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("seed", range(2))
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
