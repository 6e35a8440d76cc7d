"""Every law on every primitive of the registry; a failing test names both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fx.testing import LAWS, all_primitives, draw

CASES = [(p, law) for p in all_primitives().values() for law in LAWS.values() if law.applies(p)]


@pytest.mark.parametrize(
    ("primitive", "law"), CASES, ids=[f"{p.name}-{law.name}" for p, law in CASES]
)
def test_law(primitive, law):
    @given(source=st.randoms(use_true_random=False))
    def holds(source):
        law(primitive, draw(primitive, source))

    holds()
