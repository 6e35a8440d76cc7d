"""``plan``: placements for a training step, chosen by a linear program, and why.

``README.md`` tells how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from time import monotonic
from typing import Any

from fx import tree
from fx.distributed.placements import Placements, Replicate, Shard
from fx.distributed.planning.choice import WHOLE, Cuts, chosen
from fx.distributed.planning.price import Priced, Sizes, priced
from fx.distributed.planning.program import Step, staged
from fx.distributed.simulator.cluster import Cluster, Link
from fx.errors import ArgumentError
from fx.tensor import Tensor

__all__ = ["Plan", "plan"]

_ROUNDS = 4  # in which the inputs are given less, where the rest takes more than was left
_MESSAGES = 5  # that a plan shows


def plan(
    step: Callable[..., Any],
    mesh: Any,
    *,
    memory: float | None = None,
    cluster: Cluster | None = None,
    state: int = 0,
    time_limit: float = 20.0,
) -> Callable[..., Plan]:
    """Choose where the tensors of a step lie on a mesh, so that it takes least time.

    Args:
        step: a function of tensors, jitted or not: a training step of modules and an optimizer
            (whose parameters and slots are planned too), or a pure one.
        mesh: a mesh of the ranks there are, or one of lanes for ranks that one has not got.
        memory: bytes that a rank may take for its parts and what is computed of them; None: any.
        cluster: how fast devices and links are (``fx.distributed.simulator``); None: a host of
            small CPUs. ``simulator.measure()`` finds what the ranks are.
        state: how many of the first arguments the first results take the place of, in a pure step.
        time_limit: seconds for a linear program, and for making better what they choose.

    Returns:
        a function of the step's arguments, of which shapes and dtypes count, that gives a ``Plan``.

    Raises:
        ArgumentError: if no placements are found that fit into ``memory``, naming the smallest; if
            the step asks for values.

    Example:
        >>> import fx
        >>> from fx.distributed import plan
        >>> mesh = fx.Mesh((4,), ("i",), lanes=True)
        >>> def step(w, x):
        ...     return w - 0.1 * fx.grad(lambda w: (fx.tanh(x @ w) ** 2).sum())(w)
        >>> found = plan(step, mesh, state=1)(fx.zeros((64, 64)), fx.zeros((4096, 64)))
        >>> found.placements
        {'argument 0': (Replicate(),), 'argument 1': (Shard(dim=0),)}
        >>> [m.name for m in found.messages]
        ['psum']
    """
    sizes = Sizes(mesh)
    speed = cluster or _host(len(sizes.devices.flat))

    def planned(*args: Any) -> Plan:
        return _best(staged(step, args, state), sizes, speed, memory or float("inf"), time_limit)

    return planned


def _host(devices: int) -> Cluster:
    link = Link(2e-5, 4e9)
    return Cluster(1, devices, 5e10, 1e10, float("inf"), link, link)


class Plan:
    """Where the inputs of a step lie, what that costs, and what else was looked at.

    Attributes:
        placements: by the name of an input: a parameter, a slot of an optimizer, an argument.
        time: seconds of a step; ``computing`` and ``sending`` are its parts.
        memory: bytes of a rank.
        messages: what a rank sends, in order.
        others: by name, what other choices cost.
    """

    def __init__(self, step: Step, mesh: Sizes, best: str, all_of_them: dict[str, Priced]) -> None:
        found = all_of_them[best]
        self._step, self._found, self.name = step, found, best
        self.axis_names, self.sizes = mesh.axis_names, mesh.sizes
        self.placements = dict(zip(step.names, found.placements))
        self.computing, self.sending = found.computing, found.sending
        self.time, self.memory, self.messages = found.time, found.memory, found.messages
        self.others = {name: p for name, p in all_of_them.items() if name != best}

    def of(self, cell: Any) -> Placements:
        """The placements of a parameter or buffer; whole where the step does not read it."""
        for held, placements in zip(self._step.cells, self._found.placements):
            if held is cell:
                return placements
        return (Replicate(),) * len(self.sizes)

    def distribute(self, module: Any, mesh: Any) -> Any:
        """Bring a module's parameters and buffers to where they were planned, before the optimizer
        is made; the module."""
        from fx.distributed.distributing import distribute_module, distribute_tensor
        from fx.nn import Parameter

        def place(name: str, part: Any, mesh: Any) -> None:
            for key, p in [*part._parameters.items()]:
                if p is not None:
                    moved = distribute_tensor(p.detach(), mesh, list(self.of(p)))
                    part.register_parameter(key, Parameter(moved, requires_grad=p.requires_grad))

        return distribute_module(module, mesh, place)

    def distribute_args(self, args: tuple[Any, ...], mesh: Any) -> Any:
        """The arguments of the step, where they were planned."""
        from fx.distributed.distributing import distribute_tensor

        names = iter(self._step.labels)

        def placed(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            whole = (Replicate(),) * len(self.sizes)
            return distribute_tensor(x, mesh, list(self.placements.get(next(names), whole)))

        return tree.map(placed, args)

    def __str__(self) -> str:
        from fx.distributed.planning.report import text

        return text(self)

    __repr__ = __str__


# the choice ---------------------------------------------------------------------------------------


Price = Callable[[list[Placements]], Priced]


def _best(step: Step, mesh: Sizes, cluster: Cluster, memory: float, limit: float) -> Plan:
    known: dict[Any, Priced] = {}

    def price(lies: list[Placements]) -> Priced:
        key = tuple(lies)
        if key not in known:
            known[key] = priced(step, mesh, cluster, lies)
        return known[key]

    found = {name: price(p) for name, p in _usual(step, mesh).items()}
    for parallel in product((False, True), repeat=len(mesh.sizes)):
        if all(parallel):  # which is among the usual ones
            continue
        name = _named(mesh, parallel)
        for p in _solved(step, mesh, cluster, price, memory, limit, parallel):
            found[name] = p
    end = monotonic() + limit
    for name in sorted(found, key=lambda n: _worth(found[n], memory)):
        better = _improved(step, mesh, price, memory, found[name], end)
        if better is not found[name]:
            found[f"{name}, then improved"] = better
    fits = {n: p for n, p in found.items() if not p.wrong and p.memory <= memory}
    if not fits:
        runs = {n: p for n, p in found.items() if not p.wrong} or found
        least = min(runs, key=lambda n: runs[n].memory)
        raise ArgumentError(
            f"plan: nothing was found that fits into memory={memory:.3g} bytes a rank; the "
            f"smallest takes {runs[least].memory:.3g} ({least}); take a larger mesh, smaller "
            f"batches, or fx.checkpoint" + (f"; {runs[least].wrong}" if runs[least].wrong else "")
        )
    best = min(fits, key=lambda n: _worth(fits[n], memory))
    return Plan(step, mesh, best, found)


def _worth(p: Priced, memory: float) -> tuple[Any, ...]:
    """The least is best: what fits, then what is quick; of plans that take as long the smaller."""
    return bool(p.wrong), max(0.0, p.memory - memory), round(p.time / 1e-9), p.memory


def _improved(
    step: Step, mesh: Sizes, price: Price, memory: float, found: Priced, end: float
) -> Priced:
    """What other placements of one input at a time make better.

    Programs know the price of every way, but choose freely among them; what is compiled takes at
    each node the way for which the fewest bytes are sent.
    """
    inputs = [v.spec for v in step.graph.inputs]
    order = sorted(range(len(inputs)), key=lambda i: -inputs[i].nbytes)
    going = True
    while going:
        going = False
        for i in order:
            for other in _placements(inputs[i].shape, mesh):
                if other == found.placements[i]:
                    continue
                if monotonic() > end:
                    return found
                lies = [*found.placements]
                lies[i] = other
                tried = price(lies)
                if _worth(tried, memory) < _worth(found, memory):
                    found, going = tried, True
    return found


def _placements(shape: tuple[int, ...], mesh: Sizes) -> Iterator[Placements]:
    """All that cut a tensor into parts of one length."""
    choices = [
        [Replicate(), *[Shard(d) for d, n in enumerate(shape) if n and n % count == 0]]
        for count in mesh.sizes
    ]
    for found in product(*choices):
        counts = [1] * len(shape)
        for p, count in zip(found, mesh.sizes):
            if isinstance(p, Shard):
                counts[p.dim] *= count
        if all(n % count == 0 for n, count in zip(shape, counts)):
            yield found


def _named(mesh: Sizes, parallel: tuple[bool, ...]) -> str:
    if not any(parallel):
        return "solved"
    data = [str(a) for a, is_data in zip(mesh.axis_names, parallel) if is_data]
    rest = [str(a) for a, is_data in zip(mesh.axis_names, parallel) if not is_data]
    return f"data parallel along {', '.join(data)}, solved along {', '.join(rest)}"


def _solved(
    step: Step,
    mesh: Sizes,
    cluster: Cluster,
    price: Price,
    memory: float,
    limit: float,
    parallel: tuple[bool, ...],
) -> Iterator[Priced]:
    """What linear programs choose, until it fits into the memory: the inputs are given less of it
    where the rest takes more than was left."""
    held = float(sum(v.spec.nbytes for v in step.graph.inputs))
    room = memory
    for _ in range(_ROUNDS):
        cuts = Cuts(step)
        for m, is_data in enumerate(parallel):  # the axes behind may cut what is held too
            rest = prod(mesh.sizes[m + 1 :])
            pinned = _rows(step, cuts, mesh.sizes[m]) if is_data else None
            if not chosen(step, cuts, mesh, m, cluster, room * rest, limit, pinned):
                return
        lies = [tuple([_placement(q) for q in told]) for told in cuts.lies]
        found = price(lies)
        yield found
        room = min(held, room) - (found.memory - memory)
        if found.memory <= memory or room <= 0:
            return


def _rows(step: Step, cuts: Cuts, count: int) -> list[str]:
    """Data parallel along an axis: rows of the batch."""
    out = [WHOLE] * len(step.graph.inputs)
    for i in step.batch:
        shape = cuts.shape(step.graph.inputs[i])
        if shape and shape[0] and shape[0] % count == 0:
            out[i] = "S0"
    return out


def _placement(told: str) -> Any:
    return Replicate() if told == WHOLE else Shard(int(told[1:]))


def _usual(step: Step, mesh: Sizes) -> dict[str, list[Placements]]:
    """What people write: everything whole, data parallel, and parameters cut besides (FSDP)."""
    count = len(mesh.sizes)
    whole: Placements = (Replicate(),) * count
    total = int(mesh.devices.size)
    rows = lambda v: v.spec.ndim and v.spec.shape[0] % total == 0 and v.spec.shape[0]
    cut: Placements = (Shard(0),) * count
    inputs = [*enumerate(step.graph.inputs)]
    data = [cut if i in step.batch and rows(v) else whole for i, v in inputs]
    held = {i for i in step.follows if i is not None}
    sharded = [cut if (i in step.batch or i in held) and rows(v) else whole for i, v in inputs]
    return {
        "everything whole": [whole for _ in inputs],
        "data parallel": data,
        "data parallel, state cut": sharded,
    }
