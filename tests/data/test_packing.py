"""Lists that workers read: packed, they are what they were, and are not copied page by page."""

import copy
import pickle
import random
from pathlib import Path

import numpy as np
import pytest

from fx.data import ConcatDataset, DataLoader, Dataset, PackedList, Subset
from fx.data.loading import packing

LISTS = {
    "str": ["a", "", "déjà", "\ud800", "日本" * 5],
    "bytes": [b"", b"ab\0c"],
    "int": [0, -1, 2**62],
    "float": [0.5, float("inf"), -0.0],
    "bool": [True, False],
    "None": [None, None],
    "tuple": [("a", 1), ("b", 2)],
    "list": [[1, 2.5], [3, 4.5]],
    "dict": [{"path": "x", "label": 3, "box": (1, 2)}, {"path": "y", "label": 4, "box": (5, 6)}],
    "empty": [],
    "empty tuples": [(), ()],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_packed_list_is_read_as_the_list(name):
    values = LISTS[name]
    packed = PackedList(values)
    assert len(packed) == len(values) and list(packed) == values == [*packed[:]]
    assert packed == values and isinstance(packed, list) and bool(packed) == bool(values)
    assert [packed[i] for i in range(-len(values), len(values))] == values * 2
    assert [type(x) for x in packed] == [type(x) for x in values]
    assert packed[::-1] == values[::-1] and repr(packed) == repr(values)
    assert packed + values == values * 2 == packed * 2 and values + list(packed) == values * 2
    for other in (pickle.loads(pickle.dumps(packed)), copy.copy(packed), copy.deepcopy(packed)):
        assert type(other) is PackedList and other == values
    with pytest.raises(IndexError):
        packed[len(values)]
    if values:
        assert packed.index(values[-1]) == values.index(values[-1]) and values[0] in packed


def test_a_packed_list_is_changed_as_the_list():
    values, packed = list(range(10)), PackedList(range(10))
    for x in (values, packed):
        x.append("new")
        x[2] = None
        del x[4]
        x.insert(0, 5.0)
        x.extend([1, 2])
        x.remove(9)
    assert packed == values and len(packed) == len(values) and packed.pop() == 2
    numbers = PackedList([3, 1, 2])
    numbers.sort()
    assert numbers == [1, 2, 3] and random.Random(0).choice(numbers) in (1, 2, 3)
    assert np.array(PackedList([1.5, 2.5])).tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    "values", [[1, "a"], [2**70], [object()], [(1, 2), (3,)], [{"a": 1}, {"b": 1}], [[1], [None]]]
)
def test_what_cannot_be_packed_is_refused(values):
    with pytest.raises(TypeError, match="PackedList takes str, bytes, int"):
        PackedList(values)


class Names(Dataset):
    """Samples that each read many strings."""

    def __init__(self, count):
        self.names = [f"/data/images/class_{i % 100}/{i:08d}.jpeg" for i in range(count)]
        self.odd = [object()] * packing.LONG
        self.cache = []

    def __len__(self):
        return 100

    def __getitem__(self, index):
        part = len(self.names) // 100
        size = 0
        for i in range(index * part, (index + 1) * part):
            size += len(self.names[i])
        self.cache.append(index)
        return size, type(self.names) is PackedList, type(self.odd) is list, private()


def private():
    """Bytes of memory that this process shares with nobody."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(x.split()[1]) for x in lines if x.startswith("Private_Dirty"))


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell private memory"
)
def test_a_worker_that_reads_many_strings_does_not_copy_them():
    data = Names(300_000)
    sizes, packed, odd, memory = zip(*DataLoader(data, None, num_workers=1))
    assert sum(sizes) == sum(map(len, data.names)) and all(packed) and all(odd)
    assert max(memory) - memory[0] < 8e6  # the strings are 30 MB
    assert type(data.names) is list and data.cache == []


def test_lists_of_nested_datasets_are_packed(monkeypatch):
    monkeypatch.setattr(packing, "LONG", 3)

    class Kinds(Dataset):
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            return self.values[index], type(self.values) is PackedList

    class Outer(Subset):
        def __getitems__(self, indices):
            return [(*super(Outer, self).__getitem__(i), type(self.indices)) for i in indices]

    shared = ["x", "y", "z"]
    data = Outer(ConcatDataset([Kinds(shared), Kinds([1, 2]), Kinds(shared)]), [7, 0, 3])
    (batch,) = DataLoader(data, 3, num_workers=1, collate_fn=lambda samples: samples)
    assert batch == [("z", True, PackedList), ("x", True, PackedList), (1, False, PackedList)]
