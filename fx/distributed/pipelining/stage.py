"""PipelineStage: a part of a model, and what it keeps of a micro-batch until its way back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx import tree
from fx.autograd.engine import backward, grad
from fx.config import no_grad
from fx.devices import Device
from fx.distributed import exchange
from fx.distributed.errors import DistError
from fx.distributed.filling import array_of
from fx.distributed.groups import world
from fx.distributed.pipelining.channel import Passed, listed
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Work
from fx.dtypes import INEXACT
from fx.errors import ArgumentError
from fx.nn.parallel import DistributedDataParallel
from fx.prims.creation import zeros_like_spec
from fx.tensor import Tensor, new_tensor
from fx.transforms.jitting import jit
from fx.transforms.jitting.halves import first_half


class _Held:
    """What a stage keeps of a micro-batch until its way back is through."""

    def __init__(self, leaves: list[Tensor | None], roots: list[Tensor]) -> None:
        self.leaves = leaves  # the inputs that want a cotangent; None for the others
        self.roots = roots  # the loss, or the results that want a cotangent
        self.cts: list[Tensor] | None = None


class PipelineStage:
    """A module that is one stage of a pipeline, in the rank that makes it.

    The next stage gets as its positional arguments what the module returns: a tensor, or a tuple or
    list of them. Forward and backward pass are compiled, each as one native call, where ``jit`` can
    compile the module; else it runs as it is, with a warning that says why.

    Args:
        submodule: the module; one that is a ``DistributedDataParallel`` averages its gradients
            at the end of a step.
        stage_index: its number, from 0.
        num_stages: how many there are in all ranks.
        device: the CPU.
        input_args, output_args: tensors like those that it takes and gives, to be compared.
        output_grads, input_grads: the same of their cotangents.
        group: the ranks of the pipeline; None: all.
        tied: the sets of parameters that are one parameter of the model, each as the name of the
            parameter by the number of the stage; their gradients are summed. All stages
            give the same.
        compiled: whether to compile.

    Raises:
        ArgumentError: if the number is none of the stages, or there are more ranks than stages.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.distributed.pipelining import PipelineStage, ScheduleGPipe
        >>> dist.init_process_group("fake", rank=0, world_size=1)
        >>> stage = PipelineStage(fx.nn.Linear(3, 2), 0, 1)
        >>> schedule = ScheduleGPipe(stage, 2, loss_fn=fx.nn.MSELoss())
        >>> schedule.step(fx.ones((4, 3)), target=fx.ones((4, 2))).shape
        (4, 2)
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Any,
        stage_index: int,
        num_stages: int,
        device: Any = "cpu",
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
        *,
        tied: Sequence[dict[int, str]] = (),
        compiled: bool = True,
    ) -> None:
        if not 0 <= stage_index < num_stages:
            raise ArgumentError(f"Stage index {stage_index} is out of range of {num_stages}")
        for name, value in (("dw_builder", dw_builder), ("get_mesh", get_mesh)):
            if value is not None:
                raise ArgumentError(
                    f"PipelineStage: {name} is not needed, the backward pass is cut by its graph; "
                    f"leave it out"
                )
        if Device(device).name != "cpu":
            raise ArgumentError(f"PipelineStage: stages are on the CPU, got device {device!r}")
        self.submod = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device = device
        self.group = world(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if self.group_size > num_stages:
            raise ArgumentError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages "
                f"{num_stages}"
            )
        self.tied = tuple([dict(names) for names in tied])
        self.has_backward = False
        parallel = isinstance(submodule, DistributedDataParallel)
        self._parallel = submodule if parallel else None
        self._module = submodule.module if parallel else submodule
        self._told = {
            "input": (_specs(input_args), _specs(input_grads)),
            "output": (_specs(output_args), _specs(output_grads)),
        }
        self._held: dict[int, _Held] = {}
        self._compiled = compiled
        self._functions: dict[int, Callable[..., Any]] = {}  # by the loss, which each holds

    @property
    def is_first(self) -> bool:
        """Whether it takes the arguments of the step."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether it gives the results and losses."""
        return self.stage_index == self.num_stages - 1

    def parameter(self, name: str) -> Any:
        """The parameter of a name.

        Raises:
            ArgumentError: if there is none.
        """
        found = dict(self._module.named_parameters(remove_duplicate=False)).get(name)
        if found is None:
            raise ArgumentError(f"stage {self.stage_index} has no parameter {name!r} to be tied")
        return found

    # one micro-batch ------------------------------------------------------------------------------

    def forward_one(
        self,
        microbatch: int,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wanted: Sequence[bool],
        loss: tuple[Any, Any, Any] | None,
        trains: bool,
    ) -> tuple[Any, tuple[Tensor, ...], tuple[bool, ...], Tensor | None]:
        """Run the module.

        Args:
            args: those of the step in the first stage, else what the stage before gave.
            wanted: which of the latter want a cotangent.
            loss: function, target and keyword arguments, in the last stage.
            trains: whether there is a way back.

        Returns:
            what the module gives; the tensors of it that pass on, and which of them want a
            cotangent; and the loss. None of them is recorded.
        """
        leaves: list[Tensor | None] = []
        if self.is_first:
            self._fits("input", [x for x in tree.leaves(args) if isinstance(x, Tensor)])
        else:
            self._fits("input", args)
            wants = [trains and w for w in wanted]
            leaves = [x.requires_grad_(True) if w else None for x, w in zip(args, wants)]
        function = self._function(None if loss is None else loss[0])
        given = () if loss is None else loss[1:]
        if trains:
            out, value = function(tuple(args), kwargs, *given)
        else:
            with no_grad():
                out, value = function(tuple(args), kwargs, *given)
        tensors = () if self.is_last else self._passing(out)
        flags = tuple([trains and x.requires_grad and x.dtype in INEXACT for x in tensors])
        if trains:
            roots = [x for x, f in zip(tensors, flags) if f]
            if self.is_last and value is not None:
                roots = [value] if value.requires_grad else []
            self._held[microbatch] = _Held(leaves, roots)
        bare = lambda x: x.detach() if isinstance(x, Tensor) else x
        passed = tuple([bare(x) for x in tensors])
        return (tree.map(bare, out) if self.is_last else None), passed, flags, bare(value)

    def backward_one(self, microbatch: int, cts: list[Tensor] | None) -> list[Tensor]:
        """The whole way back: the cotangents of the inputs that want one; weights' are added."""
        held = self._held.pop(microbatch)
        if held.roots:
            backward(held.roots, cts)
        return self._of_inputs(held, [None if x is None else x.grad for x in held.leaves])

    def backward_input(self, microbatch: int, cts: list[Tensor] | None) -> list[Tensor]:
        """The first half: the cotangents of the inputs that want one."""
        held = self._held[microbatch]
        held.cts = cts
        leaves = [x for x in held.leaves if x is not None]
        if not leaves:
            return []
        found: Any = [None] * len(leaves)
        if held.roots:
            ones = [zeros_like_spec(x.spec) + 1 for x in held.roots] if cts is None else cts
            found = first_half(held.roots, ones, leaves)
            if found is None:  # not one compiled call: the second half goes this way again
                found = grad(held.roots, leaves, cts, retain_graph=True, allow_unused=True)
        rest = iter(found)
        return self._of_inputs(held, [None if x is None else next(rest) for x in held.leaves])

    def backward_weight(self, microbatch: int) -> None:
        """The second half: the cotangents of the weights are added to their ``grad``."""
        held = self._held.pop(microbatch)
        if held.roots:
            backward(held.roots, held.cts)

    def clear(self) -> None:
        """Forget what a step that did not end has left."""
        self._held.clear()

    # at the end of a step -------------------------------------------------------------------------

    def average(self) -> None:
        """Average the gradients over the ranks that have this stage, if it is data parallel.

        Raises:
            DistError: if it has a communication hook, which a pipeline does not call.
        """
        if self._parallel is None:
            return
        if getattr(self._parallel._reducer, "hook", None) is not None:
            raise DistError(
                f"stage {self.stage_index} has a communication hook, which a pipeline does not "
                f"call; leave register_comm_hook out"
            )
        group, by_dtype = self._parallel.process_group, dict[Any, list[Any]]()
        for p in self._module.parameters():
            if p.grad is not None:
                by_dtype.setdefault(p.dtype, []).append(p)
        for dtype, params in by_dtype.items():
            flat = np.concatenate([array_of(p.grad, "gradients").reshape(-1) for p in params])
            key = ("gradients", f"stage {self.stage_index}", dtype.name, flat.size)
            steps = exchange.checked(group, key, exchange.reduce_all(group, flat, ReduceOp.AVG))
            whole = Work(group, "gradients", steps, lambda out: out, flat.nbytes).begin().value()
            cuts = np.cumsum([p.size for p in params])[:-1]
            for p, part in zip(params, np.split(whole, cuts)):
                p.grad = new_tensor(part.reshape(p.shape))

    # what it consists of --------------------------------------------------------------------------

    def _function(self, loss_fn: Any) -> Callable[..., Any]:
        """The module, and the loss of what it gives where there is a function for it."""
        function = self._functions.get(id(loss_fn))
        if function is None:
            module = self._module

            def forward(args: Any, kwargs: Any) -> Any:
                return module(*args, **kwargs), None

            def forward_and_loss(args: Any, kwargs: Any, target: Any, more: Any) -> Any:
                out = module(*args, **kwargs)
                return out, loss_fn(out, target, **more)

            function = forward if loss_fn is None else forward_and_loss
            function = self._functions[id(loss_fn)] = jit(function) if self._compiled else function
        return function

    def _passing(self, out: Any) -> tuple[Tensor, ...]:
        tensors = tuple(out) if isinstance(out, tuple | list) else (out,)
        for x in tensors:
            if not isinstance(x, Tensor):
                raise DistError(
                    f"stage {self.stage_index} gave a {type(x).__name__}; a tensor, or a tuple or "
                    f"list of tensors, passes to the next stage"
                )
        self._fits("output", tensors)
        return tensors

    def _fits(self, which: str, tensors: Sequence[Tensor]) -> None:
        """Compare with what was announced, by ``input_args`` and so on.

        Raises:
            DistError: if it differs.
        """
        for name, told in zip(("args", "grads"), self._told[which]):
            found = _specs(tensors)
            if told is not None and (len(told) != len(found) or any(
                t is not None and t != f for t, f in zip(told, found)
            )):  # fmt: skip
                verb = "takes" if which == "input" else "gives"
                raise DistError(
                    f"stage {self.stage_index} {verb} {listed(found)}, and its {which}_{name} "
                    f"announced {listed(told)}"
                )

    def _of_inputs(self, held: _Held, grads: Sequence[Tensor | None]) -> list[Tensor]:
        """The cotangents that the stage before waits for: zeros where nothing depends on one."""
        pairs = [(x, g) for x, g in zip(held.leaves, grads) if x is not None]
        return [zeros_like_spec(x.spec) if g is None else g.detach() for x, g in pairs]


def _specs(tensors: Any) -> Any:
    """Shapes and dtypes; None if there are none to compare."""
    if tensors is None:
        return None
    listed = tensors if isinstance(tensors, tuple | list) else (tensors,)
    return [None if x is None else Passed(tuple(x.shape), x.dtype.name, False) for x in listed]
