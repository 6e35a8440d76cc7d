"""Every case under every word up to three letters, against ``jax.lax``."""

import pytest

from tests.transforms.control import cases
from tests.transforms.control.words import values, words
from tests.transforms.oracle import same


@pytest.mark.parametrize("case", cases.SMOOTH, ids=lambda c: c.__name__)
def test_eager_words(case):
    for word in words("gjv", 2):
        same(*values(case, word))
