"""What loaders take and refuse, and what names there are; torch is the oracle."""

import inspect
from importlib import import_module

import pytest

import fx
from fx.data import DataLoader, IterableDataset

torch = pytest.importorskip("torch")
TD = torch.utils.data


REFUSED = [
    {"sampler": [0], "shuffle": True},
    {"batch_sampler": [[0]], "batch_size": 2},
    {"batch_sampler": [[0]], "drop_last": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 0},
    {"batch_size": 1.5},
    {"num_workers": -1},
    {"timeout": -1},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True},
    {"multiprocessing_context": "fork"},
    {"multiprocessing_context": "knife", "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"drop_last": 2},
]


class Empty(IterableDataset):
    def __iter__(self):
        return iter(())


class TorchEmpty(TD.IterableDataset):
    def __iter__(self):
        return iter(())


@pytest.mark.parametrize("options", REFUSED, ids=str)
def test_what_loaders_refuse_is_what_torchs_refuse(options):
    refused_alike(lambda: DataLoader(range(3), **options), lambda: TD.DataLoader([1], **options))


@pytest.mark.parametrize(
    "options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"batch_size": 0}],
    ids=str,
)  # fmt: skip
def test_what_loaders_of_streams_refuse(options):
    refused_alike(
        lambda: DataLoader(Empty(), **options), lambda: TD.DataLoader(TorchEmpty(), **options)
    )


def refused_alike(ours, theirs):
    """The same class of error, and a message with the same first words."""
    with pytest.raises((ValueError, TypeError)) as expected:
        theirs()
    with pytest.raises(expected.type) as found:
        ours()
    first = " ".join(str(expected.value).split()[:5])
    assert str(found.value).startswith(first)


@pytest.mark.parametrize("name", ["batch_size", "sampler", "drop_last", "dataset"])
def test_some_attributes_are_fixed(name):
    with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader"):
        setattr(DataLoader(range(3)), name, 1)


def test_the_signature_is_torchs_and_a_little_more():
    ours, theirs = (inspect.signature(c).parameters for c in (DataLoader, TD.DataLoader))
    assert list(ours) == [*theirs, "worker_type"]
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default and ours[name].kind == parameter.kind


def test_the_names_of_torch_are_there():
    missing = [n for n in TD.__all__ if not hasattr(fx.data, n)]
    assert missing == []
    for module in ("dataloader", "dataset", "sampler", "distributed", "_utils.collate"):
        theirs = import_module(f"torch.utils.data.{module}")
        names = getattr(theirs, "__all__", ["default_collate", "default_convert", "collate"])
        ours = import_module(f"fx.data.{module}")
        assert [n for n in names if not hasattr(ours, n)] == []
