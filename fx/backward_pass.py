"""The one reverse-mode engine: it pulls cotangents back over the tape.

It serves ``.backward()`` and ``grad`` alike; they differ in where a cotangent ends. Nodes come from
a heap in the reverse order of their making, so there is no recursion and no sorting beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from sys import getrefcount
from typing import Any

from numpy import ndarray

from fx.config import ENABLED, NEVER, modes, set_modes, writing
from fx.errors import BackwardError
from fx.tape import Leaf, Node, Select, asleep, grad_tracer
from fx.tensor import Tensor, new_tensor

_watcher: Callable[[Any, Any], None] | None = None
_may_write = False  # whether a module of this process may write to tensors (fx.writing)
_written = False  # whether one has


def note_writing(begun: bool) -> None:
    """Tensors may be written to, or were: then a pullback is told what was when it was made."""
    global _may_write, _written
    _may_write = True
    _written = _written or begun


def watch(watcher: Callable[[Any, Any], None] | None) -> Callable[[Any, Any], None] | None:
    """Have ``watcher(node, cotangents)`` called behind each pullback; the one before."""
    global _watcher
    before, _watcher = _watcher, watcher
    return before


def backward_pass(
    roots: Iterable[tuple[Node, Tensor]],
    *,
    level: int,
    keep: bool = False,
    create_graph: bool = False,
    accumulate: bool = True,
    inputs: Sequence[Node] | None = None,
    prune: bool = False,
) -> dict[Node, Tensor]:
    """Pull cotangents back from ``roots`` to the leaves, in one iterative pass.

    Args:
        roots: pairs of a node and its cotangent.
        level: the tape.
        keep: keep the pullbacks, so that another pass can follow.
        create_graph: let the rules be recorded on this tape (only on tapes of ``.backward()``).
        accumulate: add what arrives at a leaf to its ``grad``.
        inputs: collect what arrives at these nodes instead.
        prune: visit only nodes that lead to ``inputs``.

    Returns:
        the cotangent of each node of ``inputs`` that was reached.

    Raises:
        BackwardError: if a node on the way was freed by an earlier pass.
    """
    wanted = _NOTHING if inputs is None else set(inputs)
    useful = _leading_to(wanted, [node for node, _ in roots]) if prune else None
    found: dict[Node, Tensor] = {}
    cts: dict[Node, Any] = {}
    heap: list[tuple[int, Node]] = []

    direct = accumulate and inputs is None  # leaves without hooks need not wait their turn
    sums: dict[Any, Tensor] = {}  # of leaves and extras, what arrives at them
    watching = _watcher
    barrier, silent = modes.barrier, modes.silent
    if _may_write:
        outer, modes.pulling = modes.pulling, 0
    switch = create_graph or level == 0 or level & 1
    try:
        if create_graph:
            set_modes(ENABLED, ENABLED)
        elif level == 0:  # by the barrier: a pass on another tape may run within this one
            if barrier < 0:
                modes.barrier, modes.record0 = 0, False
        elif switch:
            modes.silent = level
        staged = modes.stage
        for root, start in roots:
            if useful is None or root in useful:
                before = cts.get(root)
                if before is None:
                    heappush(heap, (-root.seq, root))
                if staged is not None:
                    start = staged.seeded(start)
                cts[root] = start if before is None else before + start
        following: Any = None  # the only node that waits: it need not go through the heap
        following_ct: Any = None
        while heap or following is not None:
            if following is None:
                node: Any = heappop(heap)[1]
                ct: Any = cts.pop(node)
            else:
                node, ct = following, following_ct
                following = following_ct = None
            kind = type(node)
            if node.extra is not None:
                ct = _visit_extra(node, ct, sums)
            if wanted and node in wanted:
                found[node] = ct
            if kind is Leaf:
                if accumulate and (inputs is None or node in wanted):
                    _accumulate(node, ct, sums)
                continue
            if useful is not None and not useful[node]:
                continue
            if kind is Select:
                bundle = cts.get(node.of)
                if bundle is None:
                    bundle = cts[node.of] = [None] * len(node.of.specs)
                    heappush(heap, (-node.of.seq, node.of))
                before = bundle[node.index]
                bundle[node.index] = ct if before is None else before + ct
                continue
            pullback = node.pullback
            if pullback is None:
                raise BackwardError(_FREED.format(node.name()))
            primitive = node.primitive
            if _written:
                modes.pulling = node.seq
            if primitive.multiple and not primitive.sparing:
                ct = _zeros_for_missing(ct, node.specs)
            if primitive.saves:
                if create_graph:
                    grads = pullback(ct, *[_recorded(node, i, v) for i, v in node.saved])
                else:
                    grads = pullback(ct, *[v for _, v in node.saved])
            else:
                grads = pullback(ct)
            if watching is not None:
                watching(node, grads)
            alone = not heap
            for parent, grad in zip(node.parents, grads):
                if parent is None or grad is None:
                    continue
                if direct and type(parent) is Leaf and parent.extra is None:
                    sums[parent] = sums[parent] + grad if parent in sums else grad
                    continue
                if useful is not None and parent not in useful:
                    continue
                if parent is following:
                    following_ct = following_ct + grad
                elif alone and following is None:
                    following, following_ct = parent, grad
                else:
                    before = cts.get(parent)
                    if before is None:
                        cts[parent] = grad
                        heappush(heap, (-parent.seq, parent))
                    else:
                        cts[parent] = before + grad
            if heap and following is not None:
                cts[following] = following_ct
                heappush(heap, (-following.seq, following))
                following = following_ct = None
            if not keep:
                node.pullback = None
                node.parents = _NONE
                if primitive.saves:
                    node.saved = _NONE
        if _may_write:
            modes.pulling = NEVER
            ct = grads = grad = None  # what a gradient shares its memory with is seen by the counts
        if sums:
            _store(sums)
    finally:
        if _may_write:
            modes.pulling = outer
        if switch:  # no call, which a signal could come into
            modes.silent = silent
            modes.barrier = barrier
            modes.record0 = barrier < 0
    return found


_NONE: tuple[Any, ...] = ()
_NOTHING: frozenset[Node] = frozenset()
_FREED = (
    "the graph was freed by an earlier backward pass (at {}). To go through it again, keep it in "
    "the earlier call: y.backward(retain_graph=True), or fx.autograd.grad(..., retain_graph=True)"
)


def _recorded(node: Node, index: int, value: Tensor) -> Tensor:
    """An output that the pullback wants, with its node: what ``create_graph`` differentiates."""
    if value._dtype.kind in "biu":
        return value
    place = Select(node, index) if node.primitive.multiple else node
    if node.level:
        return grad_tracer(node.level, value, place)
    out = new_tensor(value._a)
    out._node = place
    return out


def _zeros_for_missing(cts: list[Any], specs: Sequence[Any]) -> list[Any]:
    from fx.prims.creation import zeros_like_spec

    return [
        zeros_like_spec(spec)
        if ct is None and spec is not None and spec.dtype.kind not in "biu"
        else ct
        for ct, spec in zip(cts, specs, strict=True)
    ]


def _leading_to(wanted: Iterable[Node], roots: list[Node]) -> dict[Node, bool]:
    """The nodes from which a wanted node is reached; True where the way goes on past the node."""
    useful: dict[Node, bool] = {}
    done: set[Node] = set()
    wanted = set(wanted)
    oldest = min([n.seq for n in wanted], default=0)  # nothing wanted lies beyond it
    stack = [(root, False) for root in roots]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            beyond = any(p in useful for p in node.parents if p is not None)
            if beyond or node in wanted:
                useful[node] = beyond
        elif node not in done:
            done.add(node)
            stack.append((node, True))
            if node.seq <= oldest:
                continue
            if type(node) is Node and node.pullback is None:
                raise BackwardError(_FREED.format(node.name()))
            stack.extend((p, False) for p in node.parents if p is not None and p not in done)
    return useful


def _store(sums: dict[Any, Tensor]) -> None:
    """Add to gradients, all at once: each owner has its old one, or each its new one."""
    if asleep:
        for owner in asleep.intersection(sums):
            del sums[owner]
        if not sums:
            return
    for owner, ct in sums.items():
        if ct._dtype.kind == "c" and type(owner) is Leaf:  # a gradient has PyTorch's pairing
            sums[owner] = _repaired(ct)
    if len(sums) == 1:
        owner, ct = sums.popitem()
        old = owner.grad
        name = "grad"
        if old is None:
            ct = _alone(ct) if _may_write else ct
        else:
            ct = old + ct
            if old.written:
                owner, name, ct = _place_of_sum(owner, old, ct)
        setattr(owner, name, ct)
        return
    before = [owner.grad for owner in sums]  # held until the end, which may run anything
    after = [ct if old is None else old + ct for old, ct in zip(before, sums.values())]
    owners: list[Any] = list(sums)
    names = ["grad"] * len(owners)
    if _may_write:
        sums.clear()
        for i, old in enumerate(before):
            if old is None:
                after[i] = _alone(after[i])
            elif old.written:
                owners[i], names[i], after[i] = _place_of_sum(owners[i], old, after[i])
    deque(map(setattr, owners, names, after), 0)


def _repaired(ct: Any) -> Any:
    from fx.prims.complex import repaired

    return repaired(ct)


def _place_of_sum(owner: Any, old: Any, new: Any) -> tuple[Any, str, Any]:
    """Where the sum of an old gradient, that was written, and another is stored.

    As in PyTorch the old one stays the object that it is, where that can be, and holds the sum.

    Returns:
        an object, the name of its slot, and the value.
    """
    found = writing.summed(old, new)
    return (owner, "grad", new) if found is None else found


def _alone(grad: Any) -> Any:
    """A gradient, held by a list or variable and this frame, as an object with its own memory.

    As in PyTorch: one that somebody else holds, or the memory of which does, is copied.
    """
    if type(grad) is not Tensor or type(array := grad._a) is not ndarray:
        return grad
    base = array.base
    held = getrefcount(grad) > 3 or getrefcount(array) > 3
    if not held and (base is None or (type(base) is ndarray and getrefcount(base) <= 3)):
        return grad
    alone = new_tensor(array.copy())
    alone._node = grad._node
    return alone


def _twin(ct: Any) -> Any:
    """Another tensor of the same value: a hook that writes into it changes no other gradient."""
    if type(ct) is not Tensor or type(ct._a) is not ndarray:
        return ct
    found = new_tensor(ct._a)
    found._node = ct._node
    return found


def _add(owner: Any, ct: Tensor, sums: dict[Any, Tensor]) -> None:
    before = sums.get(owner)
    sums[owner] = ct if before is None else before + ct


def _visit_extra(node: Node, ct: Any, sums: dict[Any, Tensor]) -> Any:
    extra = node.extra
    assert extra is not None
    if not extra.hooks and not extra.retain:
        return ct
    own = ct._dtype.kind == "c"  # hooks and grad have PyTorch's pairing of complex numbers
    if own:
        ct = _repaired(ct)
    if extra.hooks:
        pulling, modes.pulling = modes.pulling, NEVER
        try:
            for hook in tuple(extra.hooks.values()):
                given = _twin(ct)
                changed = hook(given)
                if changed is None and given.written:  # x.register_hook(lambda g: g.mul_(2))
                    changed = given
                if changed is not None:
                    ct = changed.read() if changed.written else changed
        finally:
            modes.pulling = pulling
    if extra.retain:
        _add(extra, ct, sums)
    return _repaired(ct) if own else ct


def _accumulate(leaf: Any, ct: Tensor, sums: dict[Any, Tensor]) -> None:
    _add(leaf, ct, sums)
    if leaf.extra is not None and leaf.extra.post_hooks:  # they ask for it now
        pulling, modes.pulling = modes.pulling, NEVER
        try:
            _store({leaf: sums.pop(leaf)})
            for hook in tuple(leaf.extra.post_hooks.values()):
                hook()
        finally:
            modes.pulling = pulling
