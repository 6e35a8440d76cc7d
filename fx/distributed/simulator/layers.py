"""Layers: what the parts of a model compute, hold and pass on, by their graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

from fx import tree
from fx.dtypes import INEXACT
from fx.errors import ArgumentError
from fx.graph.staging import make_graph
from fx.slotted import slotted
from fx.transforms.jitting.derived import Split, split_of


@slotted(frozen=True)
class Layer:
    """A part of a model that is kept whole: a stage or a unit of FSDP has one or several.

    All figures are for the batch for which it was made.

    Attributes:
        forward, backward: operations on elements.
        forward_bytes, backward_bytes: read and written, each value once.
        parameters: bytes.
        kept: bytes that the backward pass needs of the forward pass.
        passed: bytes of its result.
        seconds: measured times of the forward and of the backward pass on one device, or None.
        name: for reports.
    """

    forward: float
    backward: float
    forward_bytes: float
    backward_bytes: float
    parameters: float
    kept: float
    passed: float
    seconds: tuple[float, float] | None = None
    name: str = ""


def layers_of(modules: Any, *inputs: Any, measure: bool = False) -> list[Layer]:
    """The layers of modules that run one after the other.

    Args:
        modules: a Module, or a sequence of them; what each one returns is what the next one takes.
        inputs: arguments of the first one: tensors or, where nothing is measured, their specs.
        measure: run every layer on this machine, and take its times for those of a device.

    Raises:
        ArgumentError: if there is no Module.

    Example:
        >>> import fx
        >>> from fx.distributed.simulator import layers_of
        >>> first, second = layers_of(
        ...     fx.nn.Sequential(fx.nn.Linear(8, 4), fx.nn.ReLU()), fx.ones((2, 8))
        ... )
        >>> first.parameters, first.passed, first.name
        (144, 32, '0 Linear')
    """
    from fx.nn.base.module import (
        Module,
    )

    if isinstance(modules, Module):
        named = list(modules.named_children()) or [("", modules)]
        is_chain = type(modules).__name__ == "Sequential"
        modules = [m for _, m in named] if is_chain else [modules]
    if not modules or not all(isinstance(m, Module) for m in modules):
        raise ArgumentError(f"layers_of: expected Modules, got {modules!r}")
    found, given = [], inputs
    for i, module in enumerate(modules):
        name = f"{i} {type(module).__name__}"
        layer, given = _layer(module, given, name, i == 0, measure)
        found.append(layer)
    return found


def _layer(
    module: Any, given: Sequence[Any], name: str, first: bool, measure: bool
) -> tuple[Layer, list[Any]]:
    from fx.nn.base.skeleton import functional_call

    parameters = {n: p.detach() for n, p in module.named_parameters()}

    def run(parameters: dict[str, Any], *args: Any) -> Any:
        return functional_call(module, parameters, args)

    graph = make_graph(run)(parameters, *given)
    count = len(parameters) if first else len(graph.inputs)  # nobody asks for the data's gradient
    wanted = [i < count and v.spec.dtype in INEXACT for i, v in enumerate(graph.inputs)]
    split = split_of(graph, tuple(wanted))
    forward, backward = split.forward.cost(), split.backward.cost()
    kept = {k: split.forward.outputs[k].spec.nbytes for k in split.kept}
    taken = [graph.inputs[i].spec.nbytes for i in split.inputs if i >= len(parameters)]
    layer = Layer(
        forward.flops, backward.flops, forward.bytes, backward.bytes,
        sum([p.nbytes for p in parameters.values()]), sum(kept.values()) + sum(taken),
        sum([v.spec.nbytes for v in graph.outputs]),
        _measured(split, tree.leaves((parameters, *given))) if measure else None, name,
    )  # fmt: skip
    return layer, [v.spec for v in graph.outputs]


def _measured(split: Split, given: Sequence[Any]) -> tuple[float, float]:
    """Seconds of a layer's forward and of its backward pass, compiled, on this machine."""
    import fx

    forward, backward = fx.jit(split.forward.run), fx.jit(split.backward.run)
    args = [fx.rand(x.shape, dtype=x.dtype) if isinstance(x, fx.TensorSpec) else x for x in given]
    outs = forward(*args)
    late = [fx.ones_like(outs[i]) for i in split.cotangents]
    late = [*[args[i] for i in split.inputs], *[outs[k] for k in split.kept], *late]
    return _seconds(forward, args), _seconds(backward, late)


def _seconds(f: Callable[..., Any], args: Sequence[Any], times: int = 15) -> float:
    """The median time of a call, after one that compiles."""
    f(*args)
    taken = []
    for _ in range(times):
        start = perf_counter()
        f(*args)
        taken.append(perf_counter() - start)
    return median(taken)
