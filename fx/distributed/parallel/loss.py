"""The cross-entropy of logits of which each rank has some classes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from fx.distributed.implicit import implicit_replication


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Where PyTorch's scripts compute the cross-entropy of logits that are cut along classes.

    Outside of it the loss is the same: softmax along an axis that is cut sends, for each target, a
    maximum and a sum, and the place of its class a number. Logits are never gathered. Inside, a
    plain target is the same on all ranks, as with ``implicit_replication``.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> from fx.torch.distributed.tensor.parallel import loss_parallel
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> logits = dist.distribute_tensor(fx.zeros((2, 4)), mesh, [dist.Shard(1)])
        >>> with loss_parallel():
        ...     loss = fx.nn.functional.cross_entropy(logits, fx.tensor([1, 3]))
        >>> round(loss.full_tensor().item(), 4)
        1.3863
    """
    with implicit_replication():
        yield
