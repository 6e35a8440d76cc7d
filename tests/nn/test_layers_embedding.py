"""Embeddings and bags of them, over all options, and what is refused."""

import numpy as np
import pytest

import fx
from fx.errors import DTypeError, IndexingError, ShapeError

torch = pytest.importorskip("torch")

from tests.nn.oracle import arrays, check_layer, close, twins

F = fx.nn.functional
IDX = np.array([[0, 1, 4], [3, 3, 2]])
FLAT = np.array([0, 1, 4, 3, 3, 2, 2])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": -2},
        {"scale_grad_by_freq": True},
        {"max_norm": 1.0},
        {"max_norm": 0.7, "norm_type": 1.0, "padding_idx": 3},
    ],
    ids=str,
)
def test_embedding(options):
    ours, theirs = check_layer(lambda nn: nn.Embedding(5, 3, **options), IDX)
    assert ours.padding_idx == theirs.padding_idx
    close(ours.weight, theirs.weight, "the table, after max_norm")


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 3},
        {"padding_idx": -2, "max_norm": 1.0},
        {"include_last_offset": True},
        {"max_norm": 0.7, "norm_type": 1.0},
    ],
    ids=str,
)
def test_embedding_bag(mode, options):
    def make(nn):
        return nn.EmbeddingBag(5, 3, mode=mode, **options)

    offsets = np.array([0, 2, 2, 5, 7] if "include_last_offset" in options else [0, 2, 2, 5])
    ours, theirs = check_layer(make, FLAT, offsets)
    close(ours.weight, theirs.weight, "the table, after max_norm")
    check_layer(make, IDX)
    check_layer(make, IDX.astype("int32"))


def test_bags_share_gradients_by_frequency():
    # against torch's Embedding: its EmbeddingBag divides some rows by the count of another
    ours, _ = twins(lambda nn: nn.EmbeddingBag(5, 3, scale_grad_by_freq=True, mode="sum"))
    _, theirs = twins(lambda nn: nn.Embedding(5, 3, scale_grad_by_freq=True))
    (ct,) = arrays((2, 3), seed=99)
    ours(fx.tensor(IDX)).backward(fx.tensor(ct))
    theirs(torch.tensor(IDX)).sum(1).backward(torch.tensor(ct))
    close(ours.weight.grad, theirs.weight.grad)


def test_embedding_bag_weighs_its_samples():
    (w,) = arrays(IDX.shape)

    def call(layer, idx, w):
        return layer(idx, per_sample_weights=w)

    check_layer(lambda nn: nn.EmbeddingBag(5, 3, mode="sum"), IDX, w, call=call)

    def cut(layer, idx, offsets, w):
        return layer(idx, offsets, w)

    (w,) = arrays(FLAT.shape)
    make = lambda nn: nn.EmbeddingBag(5, 3, mode="sum", padding_idx=3)
    check_layer(make, FLAT, np.array([0, 3, 3]), w, call=cut)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_under_jit_and_vmap(mode):
    ours, _ = twins(lambda nn: nn.EmbeddingBag(5, 3, mode=mode, padding_idx=2))
    idx, offsets = fx.tensor(FLAT), fx.tensor([0, 2, 2, 5])
    with fx.no_grad():
        close(fx.jit(ours)(idx, offsets), ours(idx, offsets), "jit")
        lanes = fx.stack([idx, 4 - idx])
        loop = fx.stack([ours(i, offsets) for i in lanes])
        close(fx.vmap(ours, (0, None))(lanes, offsets), loop, "vmap")
        close(fx.vmap(ours)(lanes[:, None]), fx.stack([ours(i[None]) for i in lanes]), "rows")


def test_max_norm_under_jit_rebinds_the_table():
    layers = [twins(lambda nn: nn.Embedding(5, 3, max_norm=0.5))[0] for _ in range(2)]
    idx = fx.tensor(IDX)
    with fx.no_grad():
        close(fx.jit(layers[0])(idx), layers[1](idx))
    close(layers[0].weight, layers[1].weight)
    assert bool((fx.norm(layers[0].weight.detach(), axis=1) < 0.51).all())


def test_tables_from_outside():
    (table,) = arrays((4, 2))
    ours = fx.nn.EmbeddingBag.from_pretrained(fx.tensor(table), mode="sum", padding_idx=1)
    theirs = torch.nn.EmbeddingBag.from_pretrained(torch.tensor(table), mode="sum", padding_idx=1)
    assert not ours.weight.requires_grad and repr(ours) == repr(theirs)
    close(ours(fx.tensor([[3, 0, 1]])), theirs(torch.tensor([[3, 0, 1]])))
    assert fx.nn.EmbeddingBag.from_pretrained(fx.tensor(table), freeze=False).weight.requires_grad
    padded = fx.nn.EmbeddingBag(4, 2, padding_idx=-1)
    assert padded.padding_idx == 3
    np.testing.assert_array_equal(padded.weight[3].detach().numpy(), 0)


def test_empty_bags_are_zeros():
    for mode in ("sum", "mean", "max"):
        out = F.embedding_bag(fx.zeros((2, 0), dtype="int64"), fx.ones((3, 4)), mode=mode)
        np.testing.assert_array_equal(out.numpy(), np.zeros((2, 4)))


def test_refusals():
    idx, w = fx.tensor(FLAT), fx.ones((5, 2))
    with pytest.raises(ValueError, match="mode has to be one of sum, mean or max, got 'min'"):
        F.embedding_bag(idx, w, fx.tensor([0]), mode="min")
    with pytest.raises(ValueError, match="max mode does not support scaling the gradient"):
        F.embedding_bag(idx, w, fx.tensor([0]), mode="max", scale_grad_by_freq=True)
    with pytest.raises(DTypeError, match=r"takes integer indices, got float32; write x\.astype"):
        F.embedding_bag(fx.ones((2, 2)), w)
    with pytest.raises(DTypeError, match="takes integer offsets, got float32"):
        F.embedding_bag(idx, w, fx.ones(2))
    with pytest.raises(ShapeError, match=r"an input \(n,\) takes offsets"):
        F.embedding_bag(idx, w)
    with pytest.raises(ShapeError, match="input has to be 1D or 2D"):
        F.embedding_bag(idx[None, None], w)
    with pytest.raises(ValueError, match=r"offsets\[0\] has to be 0"):
        F.embedding_bag(idx, w, fx.tensor([1, 3]))
    with pytest.raises(ValueError, match="at most the input's length 7; got 0 and 8"):
        F.embedding_bag(idx, w, fx.tensor([0, 8]))
    with pytest.raises(ValueError, match="only supported for mode='sum'"):
        F.embedding_bag(fx.tensor(IDX), w, per_sample_weights=fx.ones((2, 3)))
    with pytest.raises(ShapeError, match="must have the shape of the input"):
        F.embedding_bag(fx.tensor(IDX), w, mode="sum", per_sample_weights=fx.ones(3))
    with pytest.raises(IndexingError, match=r"an index lies outside 0\.\.4"):
        F.embedding_bag(fx.tensor([[5]]), w)
    with pytest.raises(ShapeError, match="padding_idx 5 must be within num_embeddings 5"):
        fx.nn.EmbeddingBag(5, 2, padding_idx=5)
