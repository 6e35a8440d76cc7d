"""Whether ranks do the same: the messages of programs, and the keys of draws.

Compiled code compares its messages along each axis before it sends them: a number of all that it
surely comes to, and its complement, of which the least tells whether all have the same. It has the
form by which eager collectives and eager messages of meshes compare theirs (``exchange.checked``),
so a program that meets another one, another branch, a loop that goes on, or an eager call, is known
before any data moves. Then the ranks tell each other what they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from fx.config import modes
from fx.devices import backend
from fx.distributed import exchange, mpi, recorder
from fx.distributed.errors import DistError
from fx.dtypes import bool_
from fx.graph.ir import Graph, Node, Rewriter
from fx.graph.passes.effects import effect_of
from fx.graph.printing import subgraphs
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.prims.collective import MESSAGES
from fx.spec import TensorSpec

collective: Any = backend("cpu").between_ranks()
_compiled: set[str] = set()  # digests of programs
# by the number that compiled code tells where ranks differ: the axis, and what this rank said
_said: dict[int, tuple[str, tuple[str, ...]]] = {}
DRAW = "draw of a tensor on a mesh [on all ranks write fx.manual_seed(n) of one n] "


def same(ranks: Any, *said: str) -> None:
    """See that all ranks along an axis say the same.

    Raises:
        DistError: showing what each of them says.
    """
    if ranks.size > 1:
        ranks.through(exchange.agreed(ranks.group or ranks, said))


def _key_words(seed: int) -> tuple[str, str]:
    return DRAW, f"seed {seed}"


def same_key(ranks: Any, key: np.ndarray) -> None:
    """See that all ranks draw by the same key, (*B, 6) uint32."""
    words = key.reshape(-1, 6)[0].tolist()
    text = ", ".join(map(str, words[2:])) + f"; {blake2b(key.tobytes()).hexdigest()[:8]}"
    same(ranks, *_key_words(words[0] | words[1] << 32), f"call {text}")


# nodes --------------------------------------------------------------------------------------------


def _kernel(
    *keys: np.ndarray, axis: str, size: int, digest: int, tells: int, of: str
) -> np.ndarray:
    ranks = collective.ranks_of(axis)
    if keys:
        same_key(ranks, keys[0])
    else:
        same(ranks, *_said[tells][1])
    return np.zeros((), bool)


def _no_lanes(*args: Any, **params: Any) -> Any:
    raise NotImplementedError  # it stands in what is compiled, behind all transforms


# of messages, whose number is ``digest`` and whose first ``of``; or of a key (*B, 6)
ranks_agree = Primitive(
    "ranks_agree", cpu=_kernel, spec=lambda *keys, **params: TensorSpec((), bool_),
    batch=_no_lanes, effectful=MESSAGES, differentiable=False,
    jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE, sample=None,
)  # fmt: skip


def _words(axis: str, size: int, said: tuple[str, ...], of: str) -> dict[str, Any]:
    """The parameters of a comparison of what is said along an axis."""
    digest, tells = [int(exchange.print_of(x)[0][0]) for x in (said, (axis, *said))]
    _said[tells] = axis, said
    return {"axis": axis, "size": size, "digest": digest, "tells": tells, "of": of}


def agrees(ranks: Any, *said: str) -> None:
    """See, in each call of what is staged now, that all ranks along an axis say the same."""
    if ranks.size > 1:
        modes.stage.emit(ranks_agree, (), _words(ranks.key, ranks.size, said, said[0]))


# programs -----------------------------------------------------------------------------------------

Sent = dict[str, list[str]]  # messages in words, by their axis


def _messages(graph: Graph) -> Iterator[Node]:
    """The nodes of a graph that send messages along an axis, in their order.

    Of those from one rank to another the rest know nothing.
    """
    for node in graph.nodes:
        if effect_of(node) == MESSAGES and "axis" in node.params:
            yield node
        for _, inner in subgraphs(node.params):
            yield from _messages(inner)


def _told_of(node: Node) -> str:
    params = {k: v for k, v in node.params.items() if k not in ("axis", "size")}
    what = [repr(v.spec) for v in node.outs] + [f"{k}={v}" for k, v in params.items()]
    return f"{node.primitive.name}({', '.join(what)})"


def _sent_by(nodes: Iterable[Node]) -> Sent:
    sent: Sent = {}
    for node in nodes:
        sent.setdefault(node.params["axis"], []).append(_told_of(node))
    return sent


def _surely(node: Node) -> list[Node] | None:
    """The messages of a node and its graphs; None where a value tells which of them are sent.

    Of groups any branches that send alike will do. Ranks of a mesh are to have the numbers of
    lanes, which compute every branch of all, so they take one branch.
    """
    if effect_of(node) == MESSAGES:
        return [node] if "axis" in node.params else []
    found = [_all_surely(inner) for _, inner in subgraphs(node.params)]
    if not any(found) and None not in found:
        return []
    if None in found or node.primitive.name == "while":
        return None
    if node.primitive.name == "cond":
        first, sent = found[0], [_sent_by(f or ()) for f in found]
        same = all(other == sent[0] for other in sent[1:])
        of_groups = all(collective.ranks_of(axis).group is not None for axis in sent[0])
        return first if same and of_groups else None
    return [message for inner in found for message in inner or ()]


def _all_surely(graph: Graph) -> list[Node] | None:
    found: list[Node] = []
    for node in graph.nodes:
        sent = _surely(node)
        if sent is None:
            return None
        found += sent
    return found


def _guarded(graph: Graph, where: tuple[str, ...] = ()) -> Graph:
    """A graph that compares its messages with those of the other ranks, before it sends them.

    A comparison is of all that is surely sent from there to the next loop or branch of which a
    value decides what is sent. That one compares each time what it comes to, and behind it stands a
    comparison of the rest.
    """
    out, run, since = Rewriter(graph), [], 0
    for node in graph.nodes:
        sent = _surely(node)
        if sent is None:
            _compare(out, run, since, where)
            _add_guarded(out, node)
            run, since = [], len(out.nodes)
        else:
            out.keep(node)
            run += sent
    _compare(out, run, since, where)
    return out.done()


def _add_guarded(out: Rewriter, node: Node) -> None:
    """The node, whose graphs are guarded."""

    def guarded(value: Any, *where: str) -> Any:
        if isinstance(value, Graph):
            return _guarded(value, where)
        if isinstance(value, (tuple, list)):
            return type(value)([guarded(g, f"in branch {i}") for i, g in enumerate(value)])
        return value

    params = {name: guarded(value) for name, value in node.params.items()}
    inputs = [out.get(v) for v in node.inputs]
    new = Node(node.primitive, inputs, params, [v.spec for v in node.outs], node.line)
    out.nodes.append(new)
    out.env.update(zip(node.outs, new.outs, strict=True))


def _compare(out: Rewriter, run: Sequence[Node], at: int, where: tuple[str, ...]) -> None:
    """Let a comparison of some messages stand behind the first ``at`` nodes."""
    sizes = {node.params["axis"]: node.params["size"] for node in run}
    sent, asked = _sent_by(run), []
    for axis in sorted(sent):
        if sizes[axis] > 1:
            first = sent[axis][0].partition("(")[0]
            params = _words(axis, sizes[axis], ("compiled code", *sent[axis], *where), first)
            asked.append(Node(ranks_agree, (), params))
    out.nodes[at:at] = asked


def _compared(graph: Graph) -> Graph:
    """A program that compares its messages with those of the other ranks.

    The rest of a program may differ: a rank's last batch may be shorter. The flight recorder is
    told of those messages that all ranks must send.
    """
    nodes = [*_messages(graph)]
    digest = blake2b(repr(_sent_by(nodes)).encode(), digest_size=8).hexdigest()
    everyone = all(node.params["size"] == mpi.start().COMM_WORLD.size for node in nodes)
    if digest not in _compiled and everyone:
        _compiled.add(digest)
        recorder.compiled(digest)
    out = _guarded(graph)
    out.cache["dynamic"] = graph.cache.get("dynamic", False)
    return out


_DRAW = re.compile(r"draw along axis (.*): MPI gave up with its code (-?\d+)")
_FOUND = re.compile(r"MPI gave up with its code (-?\d+)")


def _told(text: str) -> str:
    """What all ranks do, where compiled code has found that they do not do the same."""
    draw, found = _DRAW.match(text), _FOUND.search(text)
    if draw is not None:
        axis, said = draw[1], _key_words(int(draw[2]) % 2**64)
    elif found is not None and int(found[1]) % 2**64 in _said:
        axis, said = _said[int(found[1]) % 2**64]
    else:
        return text
    ranks = collective.ranks_of(axis)
    group = ranks.group or ranks
    try:
        ranks.through(exchange.differ(group, said, "", group.count(), ()))
    except DistError as error:
        return str(error)
    return text


collective.compiled, collective.told = _compared, _told
