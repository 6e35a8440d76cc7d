"""Every law on every primitive of the registry; a failing test names both."""

import pytest

from fx.testing import LAWS, all_primitives, draw
from tests.laws.samples import on_samples

CASES = [(p, law) for p in all_primitives().values() for law in LAWS.values() if law.applies(p)]


@pytest.mark.parametrize(
    ("primitive", "law"), CASES, ids=[f"{p.name}-{law.name}" for p, law in CASES]
)
def test_law(primitive, law):
    on_samples(lambda source: law(primitive, draw(primitive, source)))
