"""Every kernel against a reference function."""

import pytest

from fx.testing import against_oracle, all_primitives, draw
from tests.laws.oracles import ORACLES
from tests.laws.samples import on_samples

PRIMITIVES = all_primitives()


def oracle_law(name):
    entry = ORACLES[name]
    return against_oracle(*entry) if isinstance(entry, tuple) else against_oracle(entry)


def test_every_primitive_has_a_reference():
    assert sorted(set(PRIMITIVES) ^ set(ORACLES)) == []


@pytest.mark.parametrize("name", PRIMITIVES)
def test_kernel(name):
    law = oracle_law(name)
    on_samples(lambda source: law(PRIMITIVES[name], draw(PRIMITIVES[name], source)))
