"""Packed sequences and recurrent layers over them against torch's."""

import numpy as np
import pytest

import fx
from fx.errors import ShapeError
from fx.nn.utils import rnn as ours_rnn

torch = pytest.importorskip("torch")

from torch.nn.utils import rnn as theirs_rnn

from tests.nn.oracle import arrays, close, twins
from tests.nn.test_recurrent import leaves, states

LENGTHS = {True: [5, 3, 3, 1], False: [3, 5, 1, 3]}


def same(got, expected):
    """Equal packed sequences."""
    assert type(got) is ours_rnn.PackedSequence
    for name in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
        a, b = getattr(got, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if a is not None:
            close(a, b, name)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("trailing", [(), (2,), (2, 3)])
def test_pack_and_pad(trailing, is_sorted, batch_first):
    (x,) = arrays((4, 6, *trailing) if batch_first else (6, 4, *trailing))
    options = {"batch_first": batch_first, "enforce_sorted": is_sorted}
    lengths = LENGTHS[is_sorted]
    got = ours_rnn.pack_padded_sequence(fx.tensor(x), fx.tensor(lengths), **options)
    expected = theirs_rnn.pack_padded_sequence(torch.tensor(x), lengths, **options)
    same(got, expected)
    for more in ({}, {"total_length": 8, "padding_value": -2.0}):
        pair = ours_rnn.pad_packed_sequence(got, batch_first=batch_first, **more)
        wanted = theirs_rnn.pad_packed_sequence(expected, batch_first=batch_first, **more)
        for a, b in zip(pair, wanted):
            close(a, b)


@pytest.mark.parametrize("is_sorted", [False, True])
def test_sequences(is_sorted):
    xs = arrays(*[(n, 2) for n in LENGTHS[is_sorted]])
    ours, theirs = [fx.tensor(x) for x in xs], [torch.tensor(x) for x in xs]
    for options in (
        {}, {"batch_first": True}, {"padding_value": 3.0}, {"padding_side": "left"},
    ):  # fmt: skip
        got = ours_rnn.pad_sequence(ours, **options)
        close(got, theirs_rnn.pad_sequence(theirs, **options))
    packed = ours_rnn.pack_sequence(ours, enforce_sorted=is_sorted)
    same(packed, theirs_rnn.pack_sequence(theirs, enforce_sorted=is_sorted))
    for a, b in zip(ours_rnn.unpack_sequence(packed), xs, strict=True):
        close(a, torch.tensor(b))
    padded = ours_rnn.pad_sequence(ours)
    for a, b in zip(ours_rnn.unpad_sequence(padded, fx.tensor(LENGTHS[is_sorted])), xs):
        close(a, torch.tensor(b))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("RNN", {}),
        ("GRU", {"num_layers": 2, "bidirectional": True}),
        ("LSTM", {"num_layers": 2, "bidirectional": True, "bias": False}),
        ("LSTM", {"proj_size": 2, "bidirectional": True}),
    ],
    ids=str,
)
def test_layers_over_packed_sequences(kind, options, is_sorted, given):
    ours, theirs = twins(lambda nn: getattr(nn, kind)(3, 4, **options))
    (x,) = arrays((6, 4, 3))
    hx = states(kind, options, 4) if given else None
    found = []
    for nn_rnn, make, layer in (
        (ours_rnn, fx.tensor, ours), (theirs_rnn, torch.tensor, theirs),
    ):  # fmt: skip
        leaf = make(x, requires_grad=True)
        packed = nn_rnn.pack_padded_sequence(leaf, LENGTHS[is_sorted], enforce_sorted=is_sorted)
        start = None
        if given:
            start = tuple(make(h) for h in hx) if kind == "LSTM" else make(hx)
        y, end = layer(packed, start)
        total = sum((z**2).sum() for z in (y.data, *leaves(end)))
        total.backward()
        found.append((y, end, leaf.grad, [p.grad for p in layer.parameters()]))
    (y, end, dx, dps), (ty, tend, tdx, tdps) = found
    same(y, ty)
    for a, b in zip([*leaves(end), dx, *dps], [*leaves(tend), tdx, *tdps], strict=True):
        close(a, b)


def test_under_jit():
    layer = fx.nn.GRU(3, 4, bidirectional=True, dtype="float64")
    x = fx.tensor(arrays((6, 4, 3))[0])

    def last(x, lengths):
        packed = ours_rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        y, h = layer(packed)
        return ours_rnn.pad_packed_sequence(y)[0], h

    compiled = fx.jit(last)
    for lengths in ([3, 5, 1, 3], [6, 2, 2, 1]):
        for a, b in zip(compiled(x, fx.tensor(lengths)), last(x, fx.tensor(lengths))):
            close(a, b)


def test_under_vmap():
    layer = fx.nn.LSTM(3, 4)
    xs = fx.tensor(arrays((2, 9, 3), dtype="float32")[0])
    sizes = fx.tensor([4, 3, 2])

    def run(data):
        return layer(ours_rnn.PackedSequence(data, sizes))[0].data

    with fx.no_grad():
        close(fx.vmap(run)(xs), fx.stack([run(x) for x in xs]))


def test_moves_and_casts():
    packed = ours_rnn.pack_sequence([fx.ones(2), fx.ones(3)], enforce_sorted=False)
    assert packed.double().data.dtype == fx.float64
    assert packed.half().data.dtype == fx.float16
    assert packed.long().data.dtype == fx.int64
    assert packed.float() is packed
    assert packed.cpu() is packed
    assert not packed.is_cuda
    again = ours_rnn.PackedSequence((packed.data, packed.batch_sizes), None, fx.tensor([1, 0]))
    same(again, theirs_rnn.pack_sequence([torch.ones(2), torch.ones(3)], enforce_sorted=False))
    assert ours_rnn.invert_permutation(None) is None
    assert len(fx.tree.leaves(packed)) == 4


REFUSED = [
    (lambda: ours_rnn.pack_padded_sequence(fx.ones((4, 3)), [1, 2, 3]), ValueError, "False"),
    (lambda: ours_rnn.pack_padded_sequence(fx.ones((4, 3)), [3, 2]), ShapeError, r"\(3,\)"),
    (lambda: ours_rnn.pack_padded_sequence(fx.ones((4, 3)), [3, 2, 0]), ValueError, "positive"),
    (lambda: ours_rnn.pack_padded_sequence(fx.ones((4, 3)), [5, 2, 1]), ShapeError, "exceeds"),
    (lambda: ours_rnn.pack_padded_sequence(fx.ones(4), [4]), ShapeError, "unsqueeze"),
    (lambda: ours_rnn.pad_sequence([]), ShapeError, "one or more"),
    (lambda: ours_rnn.pad_sequence([fx.ones((2, 3)), fx.ones((2, 4))]), ShapeError, "first axis"),
    (lambda: ours_rnn.pad_sequence([fx.ones(2)], padding_side="up"), ValueError, "right"),
    (lambda: ours_rnn.pad_sequence(3), TypeError, "list of tensors"),
    (lambda: ours_rnn.unpad_sequence(fx.ones((2, 3)), [1]), ShapeError, "3 lengths"),
    (lambda: ours_rnn.PackedSequence(fx.ones(2)), TypeError, "pack_padded_sequence"),
    (
        lambda: ours_rnn.pad_packed_sequence(ours_rnn.pack_sequence([fx.ones(3)]), total_length=2),
        ValueError,
        "total_length=3",
    ),
]


@pytest.mark.parametrize(("call", "error", "match"), REFUSED)
def test_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_packed_rows_equal_single_sequences():
    layer = fx.nn.LSTM(3, 4, bidirectional=True, dtype="float64")
    xs = [fx.tensor(x) for x in arrays((5, 3), (2, 3), (4, 3))]
    packed = ours_rnn.pack_sequence(xs, enforce_sorted=False)
    for got, x in zip(ours_rnn.unpack_sequence(layer(packed)[0]), xs, strict=True):
        np.testing.assert_allclose(got.detach().numpy(), layer(x)[0].detach().numpy(), atol=1e-12)
