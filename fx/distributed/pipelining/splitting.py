"""``pipeline``: a module cut into stages, at names, at ``pipe_split()``, or by a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any

from fx import tree
from fx.distributed.pipelining.cutting import Cut, Part, cut, pipe_split
from fx.distributed.pipelining.stage import PipelineStage
from fx.errors import ArgumentError, ShapeError
from fx.graph.cost import cost_of_graph
from fx.nn.base.containers import Sequential
from fx.nn.base.module import Module
from fx.nn.parameter import Parameter
from fx.random.generator import current_generator
from fx.tensor import Tensor


class SplitPoint(Enum):
    """Where a module in a ``split_spec`` is cut: before it runs, or after."""

    BEGINNING = 1
    END = 2


class StageModule(Module):
    """What a stage of a split module computes, with the parameters that it uses by their names.

    It computes what the module computed when it was split, in training and in evaluation mode, for
    tensors of the shapes that it was split with.
    """

    def __init__(
        self,
        parts: dict[bool, Part],
        named: dict[int, tuple[str, bool]],
        takes: Any,
        gives: dict[bool, Callable[[Sequence[Any]], Any]] | None,
    ) -> None:
        super().__init__()
        found = {id(c): c for part in parts.values() for c in part.cells}
        for key, (path, persistent) in named.items():
            if key in found:
                self._place(path, found[key], persistent)
        self._takes, self._gives = takes, gives
        place = lambda c: named[id(c)][0] if id(c) in named else _place_of(c)
        self._parts = {
            mode: part._replace(
                cells=[place(c) for c in part.cells], rebound=[place(c) for c in part.rebound]
            )
            for mode, part in parts.items()
        }

    def _place(self, path: str, cell: Any, persistent: bool) -> None:
        *folders, name = path.split(".")
        at: Module = self
        for folder in folders:
            if folder not in at._modules:
                at.add_module(folder, Module())
            at = at._modules[folder]
        if isinstance(cell, Parameter):
            at.register_parameter(name, cell)
        else:
            at.register_buffer(name, cell, persistent)

    def _cell(self, place: Any) -> Any:
        """The cell at a place: what has this name now."""
        if place is _GENERATOR:
            return current_generator().cell
        if not isinstance(place, str):
            return place
        *folders, name = place.split(".")
        at: Module = self
        for folder in folders:
            at = at._modules[folder]
        return at._parameters[name] if name in at._parameters else at._buffers[name]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What passes on; in the last stage what the module gave."""
        part = self._parts[self.training]
        xs: Sequence[Any] = args
        if self._takes is not None:
            leaves, structure = tree.flatten((args, kwargs))
            if structure != self._takes:
                raise ArgumentError(
                    f"the pipeline was split for arguments {self._takes}, got {structure}"
                )
            xs = [x for x in leaves if isinstance(x, Tensor)]
        count = len(part.graph.inputs) - len(part.cells) - len(part.captured)
        told = [v.spec for v in part.graph.inputs[:count]]
        if [(x.shape, x.dtype) for x in xs] != [(s.shape, s.dtype) for s in told]:
            raise ShapeError(
                f"the pipeline was split for micro-batches of {told}, got {[x.spec for x in xs]}; "
                f"split it again, or make n_microbatches fit"
            )
        outs = part.graph.run(*xs, *[self._cell(c) for c in part.cells], *part.captured)
        passed = outs[: len(outs) - len(part.rebound)]
        for place, value in zip(part.rebound, outs[len(passed) :]):
            self._cell(place).rebind(value.detach())
        return tuple(passed) if self._gives is None else self._gives[self.training](passed)


_GENERATOR = "the generator of the process and moment in which a stage runs"


def _place_of(cell: Any) -> Any:
    """How a stage finds a cell that is no parameter or buffer of the module."""
    return _GENERATOR if cell is current_generator().cell else cell


class Pipe(Module):
    """A module in stages; ``pipeline`` makes one. Called, it runs them all one after the other.

    Attributes:
        num_stages: how many there are.
        replicated_params: the parameters that several stages use, each as its name by the name of
            the stage (``"submod_0"``); their gradients are summed by the schedules.
    """

    def __init__(self, stages: list[StageModule]) -> None:
        super().__init__()
        self.num_stages = len(stages)
        for k, stage in enumerate(stages):
            self.add_module(f"submod_{k}", stage)
        users: dict[int, dict[str, str]] = {}
        for k, stage in enumerate(stages):
            for name, p in stage.named_parameters():
                users.setdefault(id(p), {})[f"submod_{k}"] = name
        self.replicated_params = [names for names in users.values() if len(names) > 1]

    def get_stage_module(self, stage_idx: int) -> StageModule:
        """The module of a stage.

        Raises:
            ArgumentError: if there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ArgumentError(f"Invalid stage index {stage_idx}!")
        return self._modules[f"submod_{stage_idx}"]  # type: ignore[no-any-return]

    def build_stage(
        self, stage_index: int, device: Any = "cpu", group: Any = None
    ) -> PipelineStage:
        """The stage for a schedule, in the rank that runs it."""
        module = self.get_stage_module(stage_index)
        number = len("submod_")
        tied = [{int(k[number:]): n for k, n in names.items()} for names in self.replicated_params]
        return PipelineStage(module, stage_index, self.num_stages, device, group=group, tied=tied)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        out = self.get_stage_module(0)(*args, **kwargs)
        for k in range(1, self.num_stages):
            out = self.get_stage_module(k)(*out)
        return out


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Pipe, device: Any = "cpu", group: Any = None
) -> PipelineStage:
    """``pipe_info.build_stage`` of a module that was made of the stage's, to be data parallel."""
    stage = pipe_info.build_stage(stage_index, device, group)
    return PipelineStage(
        stage_module, stage_index, stage.num_stages, device, group=group, tied=stage.tied
    )


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[..., Sequence[int]] | None = None,
) -> Pipe:
    """Cut a module into the stages of a pipeline.

    Its forward pass is staged for a micro-batch, in training and in evaluation mode, and cut where
    it calls ``pipe_split()``. All ranks do the same, and each keeps its ``get_stage_module``.

    Args:
        module: the model.
        mb_args, mb_kwargs: arguments as of one micro-batch.
        split_spec: submodules, by name, before or after which to cut.
        split_policy: gives of the graph the numbers of the nodes with which stages begin.

    Raises:
        ArgumentError: if a name is no submodule, or one that is not called; if a stage is empty.
        StagingError: if the forward pass asks for values.

    Example:
        >>> import fx
        >>> from fx.distributed.pipelining import SplitPoint, pipeline
        >>> model = fx.nn.Sequential(fx.nn.Linear(3, 4), fx.nn.Tanh(), fx.nn.Linear(4, 2))
        >>> pipe = pipeline(model, (fx.ones((5, 3)),), split_spec={"1": SplitPoint.BEGINNING})
        >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        (2, ['2.weight', '2.bias'])
    """
    if split_spec is not None and split_policy is not None:
        raise ArgumentError(
            "Cannot specify both `split_spec` and `split_policy`. Please use only one of them."
        )
    leaves, takes = tree.flatten((tuple(mb_args), dict(mb_kwargs or {})))
    given: list[Any] = []

    def flat(*xs: Tensor) -> list[Any]:
        tensors = iter(xs)
        args, kwargs = tree.unflatten(
            takes, [next(tensors) if isinstance(x, Tensor) else x for x in leaves]
        )
        outs, structure = tree.flatten(module(*args, **kwargs))
        given[:] = outs, structure
        return [x for x in outs if isinstance(x, Tensor)]

    specs = [x.spec for x in leaves if isinstance(x, Tensor)]
    cuts: dict[bool, Cut] = {}
    gives: dict[bool, Any] = {}
    flags = [(m, m.training) for m in module.modules()]
    handles, called = _split_at(module, split_spec or {})
    try:
        for training in (module.training, not module.training):
            if training is not module.training:
                module.train(training)
            cuts[training] = cut(flat, specs, type(module).__name__, split_policy)
            gives[training] = _giving(given[0], given[1], cuts[training].results)
    finally:
        for handle in handles:
            handle.remove()
        for m, flag in flags:
            m.training = flag
    missing = sorted(set(split_spec or {}) - called)
    if missing:
        raise ArgumentError(f"split_spec names {', '.join(missing)}, which forward does not call")
    return _made(module, cuts, takes, gives)


def _split_at(module: Module, spec: dict[str, SplitPoint]) -> tuple[list[Any], set[str]]:
    """Have the submodules of a spec call ``pipe_split``; how to undo it, and which did."""
    known, handles, called = dict(module.named_modules()), [], set[str]()
    for name, point in spec.items():
        if name not in known or not name:
            raise ArgumentError(
                f"split_spec: there is no submodule {name!r}; there are "
                f"{', '.join([n for n in known if n][:8])} …"
            )
        if not isinstance(point, SplitPoint):
            raise ArgumentError(f"Unknown split point type. split_spec[{name!r}] is {point!r}")

    def split(name: str, *_: Any) -> None:
        called.add(name)
        pipe_split()

    for name, point in spec.items():
        hook = lambda *_, name=name: split(name)
        if point is SplitPoint.BEGINNING:
            handles.append(known[name].register_forward_pre_hook(hook, prepend=True))
        else:
            handles.append(known[name].register_forward_hook(hook))
    return handles, called


def _giving(outs: list[Any], structure: Any, results: list[int]) -> Callable[[Sequence[Any]], Any]:
    """What makes of the last stage's tensors what the module gives."""
    kept = [None if isinstance(x, Tensor) else x for x in outs]
    is_tensor = [isinstance(x, Tensor) for x in outs]

    def give(passed: Sequence[Any]) -> Any:
        tensors = iter([passed[i] for i in results])
        leaves = [next(tensors) if t else x for t, x in zip(is_tensor, kept)]
        return tree.unflatten(structure, leaves)

    return give


def _made(module: Module, cuts: dict[bool, Cut], takes: Any, gives: dict[bool, Any]) -> Pipe:
    named = {id(p): (name, True) for name, p in module.named_parameters()}
    kept = module.state_dict()
    named.update({id(b): (name, name in kept) for name, b in module.named_buffers()})
    counts = {mode: len(c.parts) for mode, c in cuts.items()}
    if len(set(counts.values())) > 1:
        raise ArgumentError(
            f"{type(module).__name__} has {counts[True]} stages in training and {counts[False]} in "
            f"evaluation mode; call pipe_split() in both"
        )
    last = counts[True] - 1
    return Pipe(
        [
            StageModule(
                {mode: c.parts[k] for mode, c in cuts.items()},
                named,
                takes if k == 0 else None,
                gives if k == last else None,
            ).train(module.training)
            for k in range(last + 1)
        ]
    )


def split_evenly(
    module: Sequential, stages: int, mb_args: tuple[Any, ...] | None = None
) -> dict[str, SplitPoint]:
    """A ``split_spec`` that cuts a Sequential into stages of about the same number of layers.

    Args:
        module: the Sequential.
        stages: into how many.
        mb_args: arguments as of one micro-batch: then the costs of the layers count, as
            ``graph.cost()`` has them, not their number.

    Raises:
        ArgumentError: if it has fewer layers.

    Example:
        >>> import fx
        >>> from fx.distributed.pipelining import split_evenly
        >>> model = fx.nn.Sequential(*[fx.nn.Linear(2, 2) for _ in range(4)])
        >>> split_evenly(model, 2)
        {'2': <SplitPoint.BEGINNING: 1>}
    """
    names = list(module._modules)
    if not 0 < stages <= len(names):
        raise ArgumentError(f"{len(names)} layers do not make {stages} stages")
    costs = [1.0] * len(names) if mb_args is None else _costs(module, mb_args)
    return {names[i]: SplitPoint.BEGINNING for i in _even(costs, stages)}


def _costs(module: Sequential, args: tuple[Any, ...]) -> list[float]:
    """Operations of each layer; one that has none counts as one, and so is in some stage."""
    costs = []
    for layer in module._modules.values():
        outs: list[Any] = []

        def flat(*xs: Tensor, layer: Any = layer, outs: list[Any] = outs) -> list[Any]:
            outs[:] = [layer(*xs)]
            return outs

        found = cut(flat, [x.spec for x in args], "a layer")
        costs.append(float(max(sum([cost_of_graph(p.graph).flops for p in found.parts]), 1)))
        args = tuple(outs)
    return costs


def _even(costs: Sequence[float], stages: int) -> list[int]:
    """Where groups of neighbours begin, so that the largest sum is as small as can be."""
    sums = [0.0, *accumulate(costs)]
    best: dict[tuple[int, int], tuple[float, list[int]]] = {
        (1, n): (sums[n], []) for n in range(1, len(costs) + 1)
    }
    for k in range(2, stages + 1):
        for n in range(k, len(costs) + 1):
            best[k, n] = min(
                [(max(best[k - 1, i][0], sums[n] - sums[i]), [*best[k - 1, i][1], i])
                 for i in range(k - 1, n)]
            )  # fmt: skip
    return best[stages, len(costs)][1]
