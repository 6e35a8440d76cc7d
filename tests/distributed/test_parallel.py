"""Tensor parallel in ranks; ``test_rendezvous.py`` compares a script of it with torch."""

import inspect

import pytest

import fx.torch.distributed.tensor.parallel as ours
from tests.distributed.ranks import cases
from tests.thorough import THOROUGH

SIZES = [2, 4] if THOROUGH else [4]  # two train as torch's two in ``test_rendezvous.py``


@pytest.mark.parametrize("case", cases("cases_parallel.py"))
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_parallel.py", size)[case]


def test_the_face_has_the_names_and_arguments_of_torch():
    theirs = pytest.importorskip("torch.distributed.tensor.parallel")
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    for name in ours.__all__:
        a, b = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
        if name != "ParallelStyle":
            assert [(p.name, p.kind, p.default) for p in a.values()] == [
                (p.name, p.kind, p.default) for p in b.values()
            ], name
