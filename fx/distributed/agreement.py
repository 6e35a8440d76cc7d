"""Whether ranks do the same: the messages of programs, and the keys of draws.

Each call of compiled code begins with a comparison along each axis to which it surely comes: a
number of all messages of the program, and its complement, of which the least tells whether all
have the same. It has the form that eager collectives compare theirs by (``exchange.checked``), so
a program that meets another one, or an eager call, is known before any data moves. Then the ranks
tell each other what they do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np

from fx.config import modes
from fx.devices import backend
from fx.distributed import exchange, mpi, recorder
from fx.distributed.errors import DistError
from fx.dtypes import bool_
from fx.graph.ir import Graph, Node
from fx.graph.passes.effects import effect_of
from fx.graph.printing import subgraphs
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.prims.collective import MESSAGES
from fx.spec import TensorSpec

collective: Any = backend("cpu").between_ranks()
_compiled: set[str] = set()  # digests of programs
_sent: dict[int, tuple[str, ...]] = {}  # by the number of a program: its name and messages
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


def _kernel(*keys: np.ndarray, axis: str, size: int, digest: int, of: str) -> np.ndarray:
    ranks = collective.ranks_of(axis)
    if keys:
        same_key(ranks, keys[0])
    else:
        same(ranks, *_sent[digest])
    return np.zeros((), bool)


def _no_lanes(*args: Any, **params: Any) -> Any:
    raise NotImplementedError  # it stands in what is compiled, behind all transforms


# of a program, whose number is ``digest`` and whose first message ``of``; or of a key (*B, 6)
ranks_agree = Primitive(
    "ranks_agree", cpu=_kernel, spec=lambda *keys, axis, size, digest, of: TensorSpec((), bool_),
    batch=_no_lanes, effectful=MESSAGES, differentiable=False,
    jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE, sample=None,
)  # fmt: skip


def agrees(ranks: Any, *said: str) -> None:
    """See, in each call of what is staged now, that all ranks along an axis say the same."""
    if ranks.size > 1:
        number = int(exchange.print_of(said)[0][0])
        _sent[number] = said
        params = {"axis": ranks.key, "size": ranks.size, "digest": number, "of": said[0]}
        modes.stage.emit(ranks_agree, (), params)


def _messages(graph: Any, sure: bool = True) -> Iterator[tuple[Any, bool]]:
    """The nodes of a graph that send messages, in their order; whether they surely run."""
    for node in graph.nodes:
        if effect_of(node) == MESSAGES:
            yield node, sure
        for _, inner in subgraphs(node.params):
            yield from _messages(inner, sure and node.primitive.name not in ("cond", "while"))


def _compared(graph: Graph) -> Graph:
    """A program that first compares its messages with those of the other ranks.

    The rest of a program may differ: a rank's last batch may be shorter. Along an axis to which it
    need not come nothing is compared: a rank may not run that part. The flight recorder is told of
    those messages that all ranks must send.
    """
    sent: dict[str, list[str]] = {}
    sizes, surely, everyone = {}, set(), True
    for node, sure in _messages(graph):
        if "axis" not in node.params:  # from one rank to another: the rest know nothing of it
            continue
        params = dict(node.params)
        axis, size = params.pop("axis"), params.pop("size")
        sizes[axis] = size
        everyone &= size == mpi.start().COMM_WORLD.size
        what = ", ".join(
            [repr(v.spec) for v in node.outs] + [f"{k}={v}" for k, v in params.items()]
        )
        sent.setdefault(axis, []).append(f"{node.primitive.name}({what})")
        surely |= {axis} if sure else set()
    digest = blake2b(repr(sent).encode(), digest_size=8).hexdigest()
    if digest not in _compiled and everyone:
        _compiled.add(digest)
        recorder.compiled(digest)
    asked = []
    for axis in sorted(surely):
        if sizes[axis] > 1:
            said = ("compiled code", *sent[axis])
            number = int(exchange.print_of(said)[0][0])
            _sent[number] = said
            first = sent[axis][0].partition("(")[0]
            params = {"axis": axis, "size": sizes[axis], "digest": number, "of": first}
            asked.append(Node(ranks_agree, (), params))
    if not asked:
        return graph
    out = Graph(graph.inputs, [*asked, *graph.nodes], graph.outputs, graph.name)
    out.cache["dynamic"] = graph.cache.get("dynamic", False)
    return out


_FOUND = re.compile(r"(\w+) along axis (.*): MPI gave up with its code (-?\d+)")


def _told(text: str) -> str:
    """What all ranks do, where compiled code has found that they do not do the same."""
    found = _FOUND.match(text)
    if found is None:
        return text
    name, axis, number = found.groups()
    word = int(number) % 2**64
    said = _key_words(word) if name == "draw" else _sent[word]
    ranks = collective.ranks_of(axis)
    group = ranks.group or ranks
    try:
        ranks.through(exchange.differ(group, said, "", group.count(), ()))
    except DistError as error:
        return str(error)
    return text


collective.compiled, collective.told = _compared, _told
