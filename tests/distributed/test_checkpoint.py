"""Distributed checkpoints."""

import pytest

import fx
from fx.distributed import checkpoint
from fx.errors import FileFormatError
from tests.distributed.ranks import SIZES, cases


@pytest.mark.parametrize("case", cases("cases_checkpoint.py"))
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_checkpoint.py", size)[case]


def test_one_process_needs_no_group(tmp_path):
    """And what several ranks saved is one process's too, but what they had each of their own."""
    state = {"a": {"b": [fx.ones(2), None, 1.5], "none": ()}, "bytes": b"xy", 3: True}
    checkpoint.save(state, checkpoint_id=tmp_path)
    blank = {"a": {"b": [fx.zeros(2), 0, 0], "none": 0}, "bytes": 0, 3: 0}
    fx.torch.distributed.checkpoint.load(blank, checkpoint_id=tmp_path)
    assert blank["a"]["b"][0].tolist() == [1, 1] and blank["a"]["b"][1:] == [None, 1.5]
    assert (blank["a"]["none"], blank["bytes"], blank[3]) == ((), b"xy", True)


def test_torch_folders_are_named(tmp_path):
    (tmp_path / ".metadata").touch()
    with pytest.raises(FileFormatError, match="a checkpoint of torch"):
        checkpoint.load({}, checkpoint_id=tmp_path)
