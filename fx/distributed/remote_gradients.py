"""Gradients through calls: a backward pass that goes on in other workers.

In a ``context`` a tensor that requires grad is noted where it is sent, and is a leaf where it
arrives. A backward pass that comes to such a leaf goes on at the sender, by a call, and so through
as many workers as the forward pass did:

    worker 0                          worker 1
    x = w * 2    -- rpc_sync -->      x', a leaf;  y = v * x'
    y', a leaf   <-- answer ---       y, noted
    loss = y'.sum(); backward:  at y' -- ct --> of y to v and x' -- ct --> of x to w

What arrives at other leaves adds up in the context, apart from ``grad``: one worker serves several
contexts at a time. A pass is linear in its cotangents, so a leaf that is come to from several calls
passes them on one by one; it costs a call each.

A model in ``DistributedDataParallel`` averages what arrives at its parameters, in the context.

Source: ``torch.distributed.autograd``, whose mode of all sends (FAST) this does not need.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fx.backward_pass import backward_pass
from fx.distributed import averaged, calls
from fx.distributed.agent import Agent, following
from fx.distributed.errors import DistError
from fx.errors import BackwardError
from fx.ops.making.creation import ones_like
from fx.tape import Leaf, Node, node_at
from fx.tensor import Tensor

_contexts: dict[int, Context] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()


class Context:
    """What one worker knows of the forward pass of a context.

    Attributes:
        sent: by a number, the places on the tape of what went to others.
        arrived: of what came from others, the worker and its number there.
        gradients: what has arrived at the other leaves.
    """

    def __init__(self) -> None:
        self.sent: dict[int, Node] = {}
        self.arrived: dict[Leaf, tuple[int, int]] = {}
        self.gradients: dict[Leaf, Tensor] = {}
        self.owners: dict[Leaf, Any] = {}
        self.kept: list[Tensor] = []  # leaves live as long as their tensors

    def put(self, leaf: Leaf, ct: Tensor) -> None:
        """Let this be what has arrived at a leaf of this worker."""
        self.gradients[leaf] = ct
        self.owners[leaf] = leaf.variable


@contextmanager
def context() -> Iterator[int]:
    """A forward and a backward pass through several workers; gives its number.

    Raises:
        DistError: within another one; before ``init_rpc``.

    Example:
        >>> import fx
        >>> import fx.distributed.rpc as rpc
        >>> from fx.distributed import remote_gradients as remote
        >>> rpc.init_rpc("me", rank=0, world_size=1)
        >>> w = fx.tensor([1.0, 2.0], requires_grad=True)
        >>> with remote.context() as number:
        ...     y = rpc.rpc_sync("me", fx.sin, args=(w,))  # from others the same
        ...     remote.backward(number, [y.sum()])
        ...     found = remote.get_gradients(number)[w]
        >>> bool((found == fx.cos(w)).all()), w.grad
        (True, None)
        >>> rpc.shutdown()
    """
    agent = calls.required()
    if following.context is not None:
        raise DistError("a context of distributed autograd is open already in this thread")
    number = (agent.info.id << 40) + next(_numbers)
    _of(number, make=True)
    following.context = number
    try:
        yield number
    finally:
        following.context = None
        _release(number)
        for rank in agent.peers:
            if rank != agent.info.id:
                agent.ask(rank, _release, (number,), {}, 0.0, counted=False)


def _release(number: int) -> None:
    with _lock:
        _contexts.pop(number, None)


def _of(number: int, make: bool = False) -> Context:
    with _lock:
        found = _contexts.get(number)
        if found is None:
            if not make:
                raise DistError(f"Could not find autograd context with id: {number}")
            found = _contexts[number] = Context()
        return found


# what is sent -------------------------------------------------------------------------------------


def noted(x: Tensor, number: int, agent: Agent) -> tuple[Any, ...] | None:
    """How a tensor is pickled in a context; None: as outside of one, since it has no history."""
    node = node_at(x, 0) if x.requires_grad else None
    if node is None:
        return None
    one = _of(number, make=True)
    with _lock:
        key = next(_numbers)
        one.sent[key] = node
    return _arrive, (number, agent.info.id, key, x.detach())


def _arrive(number: int, rank: int, key: int, x: Tensor) -> Tensor:
    """A leaf, which knows where it comes from."""
    x = x.detach().requires_grad_()
    leaf = node_at(x, 0)
    assert isinstance(leaf, Leaf)
    one = _of(number, make=True)
    with _lock:
        one.arrived[leaf] = (rank, key)
        one.kept.append(x)
    return x


# backward -----------------------------------------------------------------------------------------


def backward(context_id: int, roots: Sequence[Tensor], retain_graph: bool = False) -> None:
    """Pull back from losses of this worker, in all workers that the forward pass went through.

    Args:
        context_id: as ``context`` gives it.
        roots: scalars that require grad.
        retain_graph: accepted; what a context holds stays until its end.

    Raises:
        DistError: if there is no such context here.
        BackwardError: if a root is no scalar, or does not require grad.
    """
    one, starts = _of(context_id), []
    if not roots:
        raise BackwardError("No tensors provided for gradient computation.")
    for root in roots:
        if root.size != 1:
            raise BackwardError(f"requires root(s) to be scalar, got shape {tuple(root.shape)}")
        node = node_at(root, 0)
        if node is None:
            raise BackwardError("requires_grad not set on root")
        starts.append((node, ones_like(root.detach())))
    _pull(context_id, one, starts)


def _pulled(number: int, cotangents: Sequence[tuple[int, Tensor]]) -> None:
    """At the sender: the pass goes on from what it sent."""
    one = _of(number)
    _pull(number, one, [(one.sent[key], ct) for key, ct in cotangents])


def _pull(number: int, one: Context, starts: list[tuple[Node, Tensor]]) -> None:
    sums: dict[Node, Tensor] = {}
    for node, ct in starts:  # one that is a leaf itself, or is sent twice, has several
        sums[node] = sums[node] + ct if node in sums else ct
    leaves = _leaves(list(sums))
    found = backward_pass(list(sums.items()), level=0, keep=True, accumulate=False, inputs=leaves)
    away: dict[int, list[tuple[int, Tensor]]] = {}
    here: list[Leaf] = []
    with _lock:
        for leaf in leaves:
            if leaf not in found:
                continue
            ct = found[leaf]
            if leaf in one.arrived:
                rank, key = one.arrived[leaf]
                away.setdefault(rank, []).append((key, ct))
            else:
                before = one.gradients.get(leaf)
                one.put(leaf, ct if before is None else before + ct)
                here.append(leaf)
    averaged.tell(one, here)
    agent = calls.required()
    outer, following.context = following.context, None  # cotangents have no history
    try:
        asked = [
            agent.ask(rank, _pulled, (number, cts), {}, calls.seconds, "backward")
            for rank, cts in away.items()
        ]
    finally:
        following.context = outer
    for call in asked:
        calls.Future(call.answer, call).wait()


def _leaves(roots: list[Node]) -> list[Leaf]:
    """The leaves that a pass from different nodes comes to, each once."""
    out, done, stack = [], set(roots), list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            out.append(node)
        for parent in node.parents:
            if parent is not None and parent not in done:
                done.add(parent)
                stack.append(parent)
    return out


def get_gradients(context_id: int) -> dict[Any, Tensor]:
    """What the backward passes of a context brought to this worker's leaves, by their tensors."""
    one = _of(context_id)
    with _lock:
        return {one.owners[leaf]: ct for leaf, ct in one.gradients.items()}
