"""Datasets; torch is the oracle where there is one."""

from collections.abc import Iterator

import numpy as np
import pytest

import fx
from fx.data import (
    ChainDataset,
    ConcatDataset,
    DataChunk,
    DataLoader,
    Dataset,
    IterableDataset,
    IterDataPipe,
    StackDataset,
    Subset,
    TensorDataset,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    random_split,
    runtime_validation,
    runtime_validation_disabled,
)
from fx.errors import ShapeError

torch = pytest.importorskip("torch")
TD = torch.utils.data


def tensors(n=11):
    return fx.arange(3.0 * n).reshape(n, 3), fx.arange(n)


def test_tensor_dataset():
    x, y = tensors()
    data = TensorDataset(x, y)
    assert len(data) == 11
    np.testing.assert_array_equal(data[-1][0].numpy(), x[10].numpy())
    with pytest.raises(
        ShapeError, match=r"size mismatch between tensors of shapes \(11, 3\), \(4,\)"
    ):
        TensorDataset(x, y[:4])


def test_subset_and_concat():
    both = Subset(range(10), [5, 6, 7]) + Subset(range(10), [1])
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(-4, 4)] == [5, 6, 7, 1, 5, 6, 7, 1]
    with pytest.raises(IndexError, match="index 4 is out of range for 4 samples"):
        both[4]


@pytest.mark.parametrize(
    "lengths", [[7, 3], [0.75, 0.25], [0.33, 0.33, 0.34], [10], [1.0], [0, 10]]
)
def test_random_split_sizes_are_torchs(lengths):
    fx.manual_seed(0)
    parts = random_split(range(10), lengths)
    assert [len(p) for p in parts] == [len(p) for p in TD.random_split(range(10), lengths)]
    assert sorted(i for p in parts for i in p) == list(range(10))


def test_random_split_repeats_and_refuses():
    a, b = (random_split(range(30), [20, 10], fx.Generator().manual_seed(1)) for _ in range(2))
    assert a[0].indices == b[0].indices != list(range(20))
    with pytest.raises(ValueError, match=r"the lengths \[5, 6\] must add up to 10"):
        random_split(range(10), [5, 6])


class Numbers(IterableDataset):
    def __init__(self, *numbers):
        self.numbers = numbers

    def __iter__(self):
        return iter(self.numbers)

    def __len__(self):
        return len(self.numbers)


def test_streams_in_a_chain():
    chain = Numbers(1, 2) + Numbers(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [1, 2, 3] and len(chain) == 3
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset"):
        list(ChainDataset([range(3)]))
    with pytest.raises(AssertionError, match="ConcatDataset does not support IterableDataset"):
        ConcatDataset([Numbers(1)])
    with pytest.raises(AssertionError, match="datasets should not be an empty iterable"):
        ConcatDataset([])


def test_stacked_datasets_are_torchs():
    for args, kwargs in (((range(4), "abcd"), {}), ((), {"x": range(4), "y": "abcd"})):
        ours, theirs = StackDataset(*args, **kwargs), TD.StackDataset(*args, **kwargs)
        assert len(ours) == len(theirs) == 4 and ours[2] == theirs[2]
        assert ours.__getitems__([3, 0]) == theirs.__getitems__([3, 0])
    for args, kwargs in (
        ((), {}),
        (("a",), {"b": "b"}),
        (("a", "bc"), {}),
        ((), {"a": "", "b": "c"}),
    ):
        with pytest.raises(ValueError):
            TD.StackDataset(*args, **kwargs)
        with pytest.raises(ValueError, match="StackDataset"):
            StackDataset(*args, **kwargs)

    class Wrong(Dataset):
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [0]

    with pytest.raises(ValueError, match="Expected 2, got 1"):
        StackDataset(Wrong()).__getitems__([0, 1])


def test_a_subset_with_samples_of_its_own_must_say_how_to_fetch_many():
    class Own(Subset):
        def __getitem__(self, index):
            return 0

    with pytest.raises(NotImplementedError, match="Own overrides __getitem__ but not __getitems__"):
        Own(range(3), [0])


def test_rows_of_a_tensor_dataset():
    x = fx.arange(12.0).reshape(4, 3)
    data = TensorDataset(x, fx.arange(4))
    assert data.batch([3, -1, 0])[1].tolist() == [3, 3, 0] and data.batch([])[0].shape == (0, 3)
    with pytest.raises(IndexError, match="indices from 0 to 4 for 4 samples"):
        data.batch([0, 4])
    a, b = TensorDataset(fx.ones((4, 2), requires_grad=True)).tensors[0], data[1:3]
    assert TensorDataset(a).batch([1])[0].requires_grad and b[1].tolist() == [1, 2]


def test_empty_splits_are_warned_about():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(3), [0.9, 0.1])
    with pytest.raises(ValueError, match="Fraction at index 2 is not between 0 and 1"):
        random_split(range(3), [0.5, 0.75, -0.25])


def test_datasets_can_be_written_with_the_type_of_their_samples():
    assert Dataset[int] and IterableDataset[str]

    class Typed(Dataset[int]):
        pass

    assert issubclass(Typed, Dataset)


# pipes ------------------------------------------------------------------------------------------


def test_pipes_are_methods_of_pipes():
    class Source(IterDataPipe):
        def __iter__(self):
            return iter([3, 1, 2])

    @functional_datapipe("shuffled_for_a_test")
    @non_deterministic
    class Shuffled(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            return iter(sorted(self.source))

    pipe = Source().shuffled_for_a_test()
    assert list(pipe) == [1, 2, 3]
    assert [b.tolist() for b in DataLoader(pipe, 2)] == [[1, 2], [3]]
    with pytest.raises(AttributeError, match="'Source' object has no attribute 'nothing'"):
        Source().nothing()
    with guaranteed_datapipes_determinism(), pytest.raises(TypeError, match="is non-determin"):
        Source().shuffled_for_a_test()
    Source().shuffled_for_a_test()
    IterDataPipe.functions.pop("shuffled_for_a_test")
    with pytest.raises(TypeError, match="can only decorate IterDataPipe"):
        functional_datapipe("x")(int)


def test_pipes_check_what_they_are_given():
    @argument_validation
    def take(source: IterDataPipe, count: int):
        return count

    class Words(IterDataPipe):
        @runtime_validation
        def __iter__(self) -> Iterator[str]:
            return iter(["a", 1])

    assert take(Words(), 2) == 2
    with pytest.raises(TypeError, match="Expected argument 'source' as a IterDataPipe"):
        take([1], 2)
    with pytest.raises(RuntimeError, match="Expected an instance as subtype of <class 'str'>"):
        list(Words())
    with runtime_validation_disabled():
        assert list(Words()) == ["a", 1]
    chunk = DataChunk([1, 2])
    assert chunk.items == [1, 2] and chunk.as_str("  ") == "  [1, 2]"
