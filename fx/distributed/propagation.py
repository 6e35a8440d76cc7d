"""Propagation: a graph of tensors on a mesh as the graph of what one rank does with its parts.

The nodes of a graph go through the function by which kernels choose placements
(``placed.computed``), with values of another graph for parts: what a kernel would do is written
down there, messages as nodes. The CPU compiles that graph, once for the placements by which
arguments come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.distributed.agreement import ranks_agree
from fx.distributed.drawn import Key
from fx.distributed.placed import DEVICE, Placed, computed
from fx.distributed.placements import Placements
from fx.distributed.redistribution import Arrays
from fx.dtypes import bool_, uint8
from fx.graph.ir import Graph, Node, Value, constant_value, input_value
from fx.graph.passes.effects import effect_of
from fx.graph.printing import subgraphs
from fx.prims import collective
from fx.prims.collective import MESSAGES
from fx.prims.creation import constant, full
from fx.prims.elementwise import astype, divide
from fx.prims.mesh import mesh_index
from fx.prims.placement import device_put
from fx.prims.placing import from_local, to_local
from fx.prims.reduction import prod
from fx.prims.shape import pad, reshape, slice, transpose
from fx.spec import TensorSpec
from fx.tensor import new_tensor

Shape = tuple[int, ...]
_REDUCTIONS = {"sum": collective.psum, "max": collective.pmax, "min": collective.pmin}


class Unfit(Exception):
    """What no rank can write down before it runs."""


# a call -------------------------------------------------------------------------------------------


class Sharded:
    """What runs a graph of tensors on a mesh.

    Attributes:
        native: whether its caller may lend it memory of arguments; no.
        why: what made it run kernel by kernel; "" where it does not.
    """

    native = free = False

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.why = ""
        asked = {v for node in graph.nodes if node.primitive is to_local for v in node.inputs}
        self.raw = {i for i, v in enumerate(graph.inputs) if v in asked}  # addends stay addends
        self.programs: dict[Any, Any] = {}
        self._last: Any = None

    def run(self, arrays: list[Any]) -> list[Any]:
        """The results as arrays."""
        arrays = [
            (a.settled or a) if type(a) is Placed and i not in self.raw else a
            for i, a in enumerate(arrays)
        ]
        last = self._last
        if last is None or not last.serves(arrays):
            key = tuple([(a.mesh, a.placements) if type(a) is Placed else None for a in arrays])
            last = self.programs.get(key)
            if last is None:
                last = self.programs[key] = self._compiled(arrays)
            self._last = last
        return last.run(arrays)  # type: ignore[no-any-return]

    def _compiled(self, arrays: list[Any]) -> Any:
        from fx.transforms.jitting.compiled import Interpreted

        try:
            return Local(self.graph, arrays)
        except Unfit as error:
            self.why = str(error)
            return _Whole(Interpreted(self.graph))

    @property
    def local(self) -> Any:
        """The executable of the last call, on parts."""
        from fx.transforms.jitting.compiled import executable_of

        return executable_of(self._last.graph)

    @property
    def schedule(self) -> Any:
        """The steps of the last call, as text."""
        return self.why or getattr(self.local, "schedule", "")


class _Whole:
    """Runs kernel by kernel, whatever the placements."""

    def __init__(self, executable: Any) -> None:
        self.run = executable.run

    def serves(self, arrays: list[Any]) -> bool:
        return False


class Local:
    """A graph for arguments by certain placements."""

    def __init__(self, graph: Graph, arrays: list[Any]) -> None:
        nodes = Nodes()
        self.places = [(a.mesh, a.placements) if type(a) is Placed else None for a in arrays]
        inputs, env = [], {}
        for v, a in zip(graph.inputs, arrays, strict=True):
            part = a.local if type(a) is Placed else a
            value = input_value(TensorSpec(part.shape, part.dtype))
            inputs.append(value)
            env[v] = (
                Part(value, a.shape, a.mesh, a.placements, nodes) if type(a) is Placed else value
            )
        given = {id(x): i for i, x in enumerate(env.values())}
        nodes.walk(graph, env)
        found = [nodes.read(env, v) for v in graph.outputs]
        outputs = [x.local if isinstance(x, Part) else x for x in found]
        keys = [k for x in found if isinstance(x, Part) for k in x.keys]
        self.keys = {k: len(found) + i for i, k in enumerate(dict.fromkeys(keys))}
        outputs += [k.key for k in self.keys]
        self.outputs = [
            (given.get(id(x)), (x.shape, x.mesh, x.placements) if isinstance(x, Part) else None)
            for x in found
        ]
        self.drawn = [(i, x.keys) for i, x in enumerate(found) if isinstance(x, Part) and x.keys]
        ordered, made = nodes.ordered()
        self.graph = Graph(inputs, ordered, [made.get(v, v) for v in outputs], graph.name)

    def serves(self, arrays: list[Any]) -> bool:
        """Whether the arguments lie as they did; by identity, which is quick."""
        for a, place in zip(arrays, self.places):
            if place is not None and (a.placements is not place[1] or a.mesh is not place[0]):
                return False
        return True

    def run(self, arrays: list[Any]) -> list[Any]:
        """The results as arrays."""
        from fx.transforms.jitting.call import run_arrays

        found = run_arrays(self.graph, [a.local if type(a) is Placed else a for a in arrays])
        out = [
            x if where is None else arrays[same] if same is not None else Placed(x, *where)
            for x, (same, where) in zip(found, self.outputs)
        ]
        for i, keys in self.drawn:
            out[i].keys = tuple([Key(found[self.keys[k]]) for k in keys])
        return out


# the graph of parts -------------------------------------------------------------------------------


class Part(Placed):
    """A tensor whose part is a value of a graph."""

    __slots__ = ("on",)

    def __init__(
        self, local: Value, shape: Shape, mesh: Any, placements: Placements, nodes: Nodes
    ) -> None:
        self.local, self.shape, self.mesh, self.placements = local, shape, mesh, placements
        self.dtype, self.ndim = local.spec.dtype, len(shape)
        self.settled = None
        self.keys = ()
        self.on = nodes

    def like(self, local: Value, shape: Shape, mesh: Any, placements: Placements) -> Part:
        return Part(local, shape, mesh, placements, self.on)


class Nodes(Arrays):
    """The graph that is written, and how one works with parts that are values of it.

    Sums that do not wait for one another go as one message. Which ones is decided by the whole
    graph alone, since all ranks must decide alike: one whose part is empty computes less.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.line = ""
        self.messages = 0  # that were written
        self.after: dict[Value, int] = {}  # the last message that a value waits for
        self.open: tuple[Any, int, list[Node]] | None = None  # sums that others may join
        self.groups: list[list[Node]] = []

    # nodes of the whole ---------------------------------------------------------------------------

    def read(self, env: dict[Value, Any], v: Value) -> Any:
        """What stands for a value of the whole graph."""
        found = env.get(v)
        if found is not None or v.constant is None:
            return found
        a = v.constant._a
        if type(a) is not Placed:
            return v
        return Part(constant_value(new_tensor(a.local)), a.shape, a.mesh, a.placements, self)

    def walk(self, graph: Graph, env: dict[Value, Any]) -> None:
        """Write what a rank does in place of the nodes of a graph."""
        for node in graph.nodes:
            self.walk_one(node, env)

    def walk_one(self, node: Node, env: dict[Value, Any]) -> None:
        """Write what a rank does in place of one node."""
        self.line = node.line
        found = self._done(node, [self.read(env, v) for v in node.inputs])
        env.update(zip(node.outs, found, strict=True))

    def _done(self, node: Node, args: list[Any]) -> Sequence[Any]:
        primitive, params = node.primitive, node.params
        if primitive is from_local and params["mesh"] is not None:
            return [Part(args[0], params["shape"], params["mesh"], params["placements"], self)]
        on_mesh = any(isinstance(x, Part) for x in args)
        if not on_mesh and all(v.spec.device != DEVICE for v in node.outs):
            return self.call(primitive, args, params)
        if primitive.anywhere:
            if primitive is device_put and params["device"] == DEVICE and not on_mesh:
                return [self._number(args[0])]  # as the kernel: the same on all ranks
            if not on_mesh or "mesh" not in params:
                raise Unfit(f"{primitive.name} at {node.line}")
            return [primitive.cpu(*args, **params)]
        parts = [x if isinstance(x, Part) else self._number(x) for x in args]
        return computed(primitive, parts, params, Part(_ZERO, (), None, (), self))

    def _number(self, x: Value) -> Part:
        return Part(x, x.spec.shape, None, (), self)

    # parts ----------------------------------------------------------------------------------------

    def shape(self, x: Value) -> Shape:
        return x.spec.shape

    def dtype(self, x: Value) -> Any:
        return x.spec.dtype

    def call(self, primitive: Any, parts: Sequence[Value], params: dict[str, Any]) -> list[Any]:
        if subgraphs(params):
            params = {name: _of_parts(value) for name, value in params.items()}
        node = Node(primitive, parts, params, None, self.line)
        self.nodes.append(node)
        if effect_of(node) == MESSAGES:
            self.open = None
        return self._behind(node, parts)

    def same_key(self, key: Value, ranks: Any) -> None:
        params = {"axis": ranks.key, "size": ranks.size, "digest": 0, "tells": 0, "of": "draw"}
        self.call(ranks_agree, (key,), params)

    def _behind(self, node: Node, parts: Sequence[Value]) -> list[Value]:
        last = max([self.after.get(v, 0) for v in parts], default=0)
        self.after.update(dict.fromkeys(node.outs, last))
        return list(node.outs)

    def full(self, shape: Shape, value: Any, dtype: Any, of: Sequence[Value]) -> Value:
        params = {
            "shape": shape,
            "value": dtype.type(value).item(),
            "dtype": dtype,
            "device": "cpu",
        }
        node = Node(full, (), params, None, self.line)
        self.nodes.append(node)
        return self._behind(node, of)[0]

    def _one(self, primitive: Any, *parts: Value, **params: Any) -> Value:
        return self.call(primitive, parts, params)[0]  # type: ignore[no-any-return]

    def _message(self, primitive: Any, x: Value, ranks: Any) -> Value:
        params = {"axis": ranks.key, "size": ranks.size}
        before, self.messages = self.after.get(x, 0), self.messages + 1
        if primitive is collective.psum:
            node = Node(primitive, (x,), params, None, self.line)
            self.nodes.append(node)
            kind = (ranks.key, x.spec.dtype)
            if self.open is None or self.open[0] != kind or before >= self.open[1]:
                self.open = kind, self.messages, []
                self.groups.append(self.open[2])
            self.open[2].append(node)
            out = node.out
        elif primitive in (collective.pmax, collective.pmin):
            out = self._one(primitive, x, **params)
        else:
            lane = self._one(mesh_index, axis=ranks.key, device="cpu")
            out = self._one(primitive, x, lane, **params)
        self.after[out] = self.messages
        return out

    def reduce(self, x: Value, ranks: Any, op: str) -> Value:
        dtype = x.spec.dtype
        if ranks.size == 1:
            return x
        if dtype == bool_:
            small = self.reduce(self._one(astype, x, dtype=uint8), ranks, op)
            return self._one(astype, small, dtype=bool_)
        found = self._message(_REDUCTIONS["sum" if op == "avg" else op], x, ranks)
        if op != "avg":
            return found
        mean = self._one(divide, found, constant_value(constant(ranks.size, dtype)))
        return mean if mean.spec.dtype == dtype else self._one(astype, mean, dtype=dtype)

    def product(self, rows: Value) -> Value:
        return self._one(prod, rows, axes=(0,), keepdims=False)

    def gather(self, x: Value, ranks: Any) -> Value:
        if ranks.size == 1:
            return self.reshape(x, (1, *x.spec.shape))
        return self._message(collective.all_gather, x, ranks)

    def reduce_scatter(self, rows: Value, ranks: Any) -> Value:
        if ranks.size == 1:
            return self.reshape(rows, rows.spec.shape[1:])
        return self._message(collective.psum_scatter, rows, ranks)

    def exchange(self, rows: Value, ranks: Any) -> Value:
        return rows if ranks.size == 1 else self._message(collective.all_to_all, rows, ranks)

    def cut(self, x: Value, dim: int, start: int, stop: int) -> Value:
        shape = x.spec.shape
        starts = tuple([start if d == dim else 0 for d in range(len(shape))])
        stops = tuple([stop if d == dim else n for d, n in enumerate(shape)])
        return self._one(slice, x, start=starts, stop=stops, step=(1,) * len(shape))

    def pad(self, x: Value, dim: int, size: int) -> Value:
        shape, nothing = x.spec.shape, (0,) * len(x.spec.shape)
        more = tuple([size - n if d == dim else 0 for d, n in enumerate(shape)])
        zero = constant_value(constant(0, x.spec.dtype))
        return self._one(pad, x, zero, low=nothing, high=more, inside=nothing)

    def reshape(self, x: Value, shape: Shape) -> Value:
        return self._one(reshape, x, shape=tuple(shape))

    def moved(self, x: Value, source: int, to: int) -> Value:
        if source == to:
            return x
        order = [d for d in range(len(x.spec.shape)) if d != source]
        order.insert(to, source)
        return self._one(transpose, x, axes=tuple(order))

    # the order ------------------------------------------------------------------------------------

    def ordered(self) -> tuple[list[Node], dict[Value, Value]]:
        """The nodes, with the sums of a group as one where the last of them stood; what stands for
        their results.

        What reads one of them stands behind. No other message lies between those of a group, and
        none of them waits for another, so that messages keep their order.
        """
        groups = [group for group in self.groups if len(group) > 1]
        places = {node: i for i, node in enumerate(self.nodes)}
        last = {node: group[-1] for group in groups for node in group}
        sums = {group[-1]: group for group in groups}
        place: dict[Value, int] = {}  # where the value is there
        rows = []
        for i, node in enumerate(self.nodes):
            if node in last:
                at = places[last[node]]
            else:
                at = max([i, *[place.get(v, 0) for v in node.inputs]])
            place.update(dict.fromkeys(node.outs, at))
            if node not in last or node in sums:
                rows.append((at, node not in sums, i, node))
        rows.sort(key=lambda row: row[:3])
        made: dict[Value, Value] = {}
        out = []
        for *_, node in rows:
            group = sums.get(node, [node])
            inputs = [made.get(v, v) for x in group for v in x.inputs]
            outs = [v for x in group for v in x.outs]
            if len(group) > 1 or any(v in made for v in node.inputs):
                specs = [v.spec for v in outs]
                node = Node(node.primitive, inputs, node.params, specs, node.line)
                made.update(zip(outs, node.outs, strict=True))
            out.append(node)
        return out, made


_ZERO = constant_value(constant(0, bool_))


def _of_parts(value: Any) -> Any:
    """A parameter, with graphs for the CPU: who runs them has all of what they take."""
    if type(value) in (tuple, list):
        return type(value)([_of_parts(x) for x in value])
    if not isinstance(value, Graph):
        return value
    env = {v: input_value(TensorSpec(v.spec.shape, v.spec.dtype)) for v in value.inputs}
    for v in value.constants():
        if type(v.array) is Placed:
            if not v.array.whole():
                raise Unfit("a loop or branch reads a constant of which a rank has a part")
            env[v] = constant_value(new_tensor(v.array.local))
    nodes = []
    for node in value.nodes:
        if node.primitive.anywhere:
            raise Unfit(f"{node.primitive.name} inside of a loop or branch, at {node.line}")
        params = {name: _of_parts(x) for name, x in node.params.items()}
        if "device" in params:
            params["device"] = "cpu"
        new = Node(node.primitive, [env.get(v, v) for v in node.inputs], params, None, node.line)
        nodes.append(new)
        env.update(zip(node.outs, new.outs, strict=True))
    inputs = [env[v] for v in value.inputs]
    return Graph(inputs, nodes, [env.get(v, v) for v in value.outputs], value.name)
