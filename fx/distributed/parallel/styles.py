"""Styles: how the parameters of a module are cut, and what it takes and gives."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

from fx.distributed.distributing import distribute_module, distribute_tensor
from fx.distributed.mesh import Mesh
from fx.distributed.placements import REPLICATE, Placement, Placements, Shard
from fx.distributed.tensor import DTensor
from fx.errors import ArgumentError
from fx.tensor import Tensor

Layouts = dict[str, Placement]


class ParallelStyle:
    """What ``parallelize_module`` does with a module: a class of one's own has ``_apply``."""

    src_data_rank: int | None = 0

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no _apply(module, device_mesh)")

    def __repr__(self) -> str:
        told = [f"{k}={v}" for k, v in vars(self).items() if k != "src_data_rank"]
        return f"{type(self).__name__}({', '.join(told)})"


# tensors ----------------------------------------------------------------------------------------


def _along_last(mesh: Mesh, others: Placements, layout: Placement) -> Placements:
    return (*others[: len(mesh.axis_names) - 1], layout)


def _brought(what: str, x: Any, mesh: Mesh, layout: Placement, wanted: Placement | None) -> Any:
    """A tensor on the mesh, of the part of this rank by ``layout`` if it is none; as wanted."""
    if not isinstance(x, Tensor):
        raise ArgumentError(f"{what}: a tensor lies as {layout}, got {type(x).__name__}")
    if not isinstance(x, DTensor):
        if len(mesh.axis_names) > 1:
            raise ArgumentError(
                f"{what}: on {mesh!r} a tensor of this rank alone may lie in several ways; write "
                f"distribute_tensor(x, mesh, placements), and use_local_output=False"
            )
        x = DTensor.from_local(x, mesh, (layout,))
    if wanted is None:
        return x
    return x.redistribute(x.device_mesh, _along_last(x.device_mesh, x.placements, wanted))


def _given(what: str, x: Any, wanted: Placement, local: bool) -> Any:
    """A result as it is wanted: a tensor on the mesh, or the part of this rank."""
    x = _brought(what, x, x.device_mesh, wanted, wanted)
    return x.to_local() if local else x


def _checked(what: str, layout: Any, otherwise: Placement) -> Placement:
    found = otherwise if layout is None else layout
    if not isinstance(found, Placement):
        raise ArgumentError(
            f"{what}: a layout is Shard(dim), Replicate() or Partial(), got {layout!r}"
        )
    return found


def _cut(module: Any, mesh: Mesh, layouts: Layouts, source: int | None) -> None:
    """Lay the parameters along the last axis of the mesh; those not named are whole."""
    from fx.nn import Parameter

    for key, p in [*module._parameters.items()]:
        if p is not None:
            whole = (REPLICATE,) * len(mesh.axis_names)
            placed = _along_last(mesh, whole, layouts.get(key, REPLICATE))
            value = distribute_tensor(p.detach(), mesh, placed, src_data_rank=source)
            module.register_parameter(key, Parameter(value, requires_grad=p.requires_grad))


def _before(module: Any, bring: Callable[[Any], Any]) -> None:
    """Let a module take its first argument as ``bring`` gives it, whether by place or by name."""
    first = next(iter(signature(module.forward).parameters), "")

    def prepare(_: Any, args: Any, kwargs: Any) -> Any:
        if args:
            args = (bring(args[0]), *args[1:])
        elif first in kwargs:
            kwargs = {**kwargs, first: bring(kwargs[first])}
        return args, kwargs

    module.register_forward_pre_hook(prepare, with_kwargs=True)


# of layers --------------------------------------------------------------------------------------


class _Layer(ParallelStyle):
    """A module of one input and one output whose parameters are cut."""

    _cuts: tuple[tuple[str, Layouts, Placement], ...] = ()  # class, parameters, input

    def __init__(self, taken: Placement, given: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (taken,), (given,)
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        from fx import nn

        name = type(self).__name__
        fitting = [cut for cut in self._cuts if isinstance(module, getattr(nn, cut[0]))]
        if not fitting:
            kinds = " and ".join([f"nn.{kind}" for kind, *_ in self._cuts])
            raise NotImplementedError(f"{name} is of {kinds}, got {type(module).__name__}")
        _, layouts, wanted = fitting[0]
        _before(module, lambda x: _brought(name, x, device_mesh, taken, wanted))
        _check_axes(name, device_mesh, self.use_local_output)
        (taken,), (given,) = self.input_layouts, self.output_layouts
        return distribute_module(
            module,
            device_mesh,
            lambda _, part, mesh: _cut(part, mesh, layouts, self.src_data_rank),
            None,
            lambda _, out, mesh: _given(name, out, given, self.use_local_output),
        )


def _check_axes(what: str, mesh: Mesh, local: bool) -> None:
    if local and len(mesh.axis_names) > 1:
        raise ArgumentError(
            f"{what}: on {mesh!r} the part of a rank does not say how it lies along the other "
            f"axes; write use_local_output=False"
        )


class ColwiseParallel(_Layer):
    """``nn.Linear`` cut along its outputs, ``nn.Embedding`` along its features.

    Args:
        input_layouts: how a plain tensor that comes in lies; replicated unless given.
        output_layouts: how the result lies; cut along its last axis unless given.
        use_local_output: give the part of this rank, a plain tensor.

    Raises:
        ArgumentError: for what is no placement.
    """

    _cuts = (
        ("Linear", {"weight": Shard(0), "bias": Shard(0)}, REPLICATE),
        ("Embedding", {"weight": Shard(1)}, REPLICATE),
    )

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        taken = _checked("ColwiseParallel", input_layouts, REPLICATE)
        given = _checked("ColwiseParallel", output_layouts, Shard(-1))
        super().__init__(taken, given, use_local_output)


class RowwiseParallel(_Layer):
    """``nn.Linear`` cut along its inputs, ``nn.Embedding`` along its rows.

    Args:
        input_layouts: how a plain tensor that comes in lies; cut along its last axis unless given.
        output_layouts: how the result lies, which is addends before; replicated unless given.
        use_local_output: give the part of this rank, a plain tensor.

    Raises:
        ArgumentError: for what is no placement.
    """

    _cuts = (
        ("Linear", {"weight": Shard(1)}, Shard(-1)),
        ("Embedding", {"weight": Shard(0)}, REPLICATE),
    )

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        taken = _checked("RowwiseParallel", input_layouts, Shard(-1))
        given = _checked("RowwiseParallel", output_layouts, REPLICATE)
        super().__init__(taken, given, use_local_output)


class SequenceParallel(ParallelStyle):
    """A module with whole parameters, such as ``nn.LayerNorm``, of a sequence that is cut.

    Args:
        sequence_dim: the axis of the sequence.
        use_local_output: give the part of this rank, a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence_dim, self.use_local_output = sequence_dim, use_local_output

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        cut = Shard(self.sequence_dim)
        _check_axes("SequenceParallel", device_mesh, self.use_local_output)
        _before(module, lambda x: _brought("SequenceParallel", x, device_mesh, cut, cut))
        return distribute_module(
            module,
            device_mesh,
            lambda _, part, mesh: _cut(part, mesh, {}, self.src_data_rank),
            None,
            lambda _, out, mesh: out.to_local() if self.use_local_output else out,
        )


# of what goes in and out ------------------------------------------------------------------------


class _Prepared:
    """How tensors come and how they are wanted, one after the other."""

    def __init__(self, what: str, layouts: Any, desired: Any, local: bool) -> None:
        self.what, self.local = what, local
        one = lambda given: (given,) if isinstance(given, Placement) else tuple(given)
        self.layouts, self.desired = one(layouts), one(() if desired is None else desired)
        if len(self.layouts) != len(self.desired):
            raise ArgumentError(
                f"{what}: {len(self.layouts)} layouts {self.layouts} and {len(self.desired)} "
                f"desired ones {self.desired}; there is one of each for each tensor"
            )

    def __call__(self, values: Any, mesh: Mesh) -> tuple[Any, ...]:
        if len(values) != len(self.layouts):
            raise ArgumentError(
                f"{self.what}: the module has {len(values)} of them and layouts say "
                f"{len(self.layouts)}, {self.layouts}; write None for what stays as it is"
            )
        return tuple(map(self.one, values, self.layouts, self.desired, [mesh] * len(values)))

    def one(self, x: Any, layout: Any, desired: Any, mesh: Mesh) -> Any:
        if layout is None:
            return x
        x = _brought(self.what, x, mesh, layout, desired)
        return x.to_local() if self.local else x


class PrepareModuleInput(ParallelStyle):
    """Bring what a module takes to a mesh.

    Args:
        input_layouts: how plain tensors lie, one for each positional argument; None of what stays.
        desired_input_layouts: how the module wants them.
        input_kwarg_layouts: the same by names of keyword arguments.
        desired_input_kwarg_layouts: how the module wants those.
        use_local_output: give the module the parts of this rank, plain tensors.

    Raises:
        ArgumentError: if there are more or fewer desired layouts than layouts.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        words, desired = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        if {*words} != {*desired}:
            raise ArgumentError(
                f"PrepareModuleInput: input_kwarg_layouts of {sorted(words)} and desired ones of "
                f"{sorted(desired)}; there is one of each for each keyword"
            )
        self._args = input_layouts is not None and _Prepared(
            "PrepareModuleInput", input_layouts, desired_input_layouts, use_local_output
        )
        self._words = {
            key: _Prepared("PrepareModuleInput", words[key], desired[key], use_local_output)
            for key in words
        }
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        _check_axes("PrepareModuleInput", device_mesh, self.use_local_output)

        def prepare(_: Any, args: Any, kwargs: Any) -> Any:
            if self._args:
                args = self._args(args, device_mesh)
            for key in {*kwargs} & {*self._words}:
                (kwargs[key],) = self._words[key]((kwargs[key],), device_mesh)
            return args, kwargs

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Bring what a module gives to a mesh, or from there.

    Args:
        output_layouts: how plain tensors lie, one for each result; None of what stays.
        desired_output_layouts: how they are wanted.
        use_local_output: give the parts of this rank, plain tensors.

    Raises:
        ArgumentError: if there are more or fewer desired layouts than layouts.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self._results = _Prepared(
            "PrepareModuleOutput", output_layouts, desired_output_layouts, use_local_output
        )
        self.use_local_output = use_local_output

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        _check_axes("PrepareModuleOutput", device_mesh, self.use_local_output)

        def prepare(_: Any, args: Any, out: Any) -> Any:
            found = self._results(out if isinstance(out, tuple) else (out,), device_mesh)
            return found if len(found) > 1 else found[0]

        module.register_forward_hook(prepare)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """``PrepareModuleInput`` and ``PrepareModuleOutput`` of one module.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: as
            of ``PrepareModuleInput``.
        use_local_input: its ``use_local_output``.
        output_layouts, desired_output_layouts, use_local_output: as of ``PrepareModuleOutput``.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Any, device_mesh: Mesh) -> Any:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
