"""Optimizer: parameter groups, state, and the step that rebinds parameters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

from fx.config import enable_grad, modes, no_grad
from fx.errors import StateError
from fx.numbers import Numbers
from fx.ops.convert import as_tensor
from fx.optim import _fused
from fx.optim._rule import Clock, Rule, first_step, zeros
from fx.prims.compare import astype
from fx.state import Cell, lasting
from fx.tensor import Tensor
from fx.versions import touch


class Optimizer:
    """What every optimizer shares, as ``torch.optim.Optimizer``.

    A step computes new values and rebinds the parameters; nothing is written into, so a tensor that
    was read from a parameter before keeps its value. The arithmetic is that of the pure form in
    ``fx.optim.pure``. ``foreach``, ``fused`` and ``capturable`` choose among PyTorch's
    implementations and change nothing here; ``differentiable=True`` is refused, since rebinding
    drops history: the pure form differentiates.

    Args:
        params: parameters, pairs of a name and a parameter, or dicts with ``"params"`` and options
            of a group.
        defaults: the options of groups that do not give them.

    Raises:
        TypeError: if ``params`` holds something else than Parameters.
        ValueError: if it is empty, or a parameter is in two groups.
    """

    rule: ClassVar[Rule]
    param_groups: list[dict[str, Any]]
    state: defaultdict[Any, dict[str, Any]]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if defaults.get("differentiable"):
            raise ValueError(
                f"{type(self).__name__}: differentiable=True is not possible, since a Parameter "
                f"drops the history of what it is rebound to; use fx.optim.pure, whose update is a "
                f"function that every transform differentiates"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Parameters or "
                "dicts, but got one tensor; write [parameter]"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Args:
            param_group: ``"params"``, and options that differ from the defaults.

        Raises:
            TypeError: if it is no dict, or holds something else than Parameters.
            ValueError: if a parameter is in a group already, or an option is out of range.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        group = Numbers(param_group)
        listed = group["params"]
        if isinstance(listed, Tensor):
            listed = [listed]
        elif isinstance(listed, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets changes between runs; use a list"
            )
        listed = list(listed)
        if listed and isinstance(listed[0], tuple):
            group["param_names"] = [name for name, _ in listed]
            listed = [p for _, p in listed]
        for p in listed:
            _check_parameter(p)
        group["params"] = listed
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.rule.check(group)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if len({id(p) for p in listed}) < len(listed) or known & {id(p) for p in listed}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or make them zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.read_grad() is not None:
                    p.grad = zeros(p.read_grad())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step along the gradients; parameters without one stay.

        Args:
            closure: computes the loss and its gradients first; its result is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        rule = self.rule
        names, counts = rule.slots(group), rule.counts(group)
        moving = [(p, p.read_grad()) for p in group["params"]]
        moving = [(p, g) for p, g in moving if g is not None]
        if counts:
            self._in_step([p for p, _ in moving], names)
        clocks: dict[int, tuple[Cell, Clock]] = {}  # parameters that are in step share one
        idle = None if counts else Clock(rule, group, None)
        ready = []
        for p, g in moving:
            held = self.state[p] if names or counts else {}
            if len(held) < len(names) + counts:
                _begin(held, names, p.read())
            clock = idle
            if clock is None:
                count = held["step"]
                if id(count) not in clocks:
                    clocks[id(count)] = count, Clock(rule, group, count.read())
                clock = clocks[id(count)][1]
            ready.append((p, g, held, clock))
        fused = rule.elementwise and modes.stage is None and modes.journal is None
        if not (fused and _fused.step(rule, group, ready, names)):
            for p, g, held, clock in ready:
                x = p.read()
                slots = {name: held[name].read() for name in names}
                x, slots = rule.update(x, g, slots, clock.scalars(x.dtype), group)
                p.rebind(x)
                for name, value in slots.items():
                    held[name].rebind(value)
        for count, clock in clocks.values():
            count.rebind(clock.step)

    def _in_step(self, params: list[Cell], names: tuple[str, ...]) -> None:
        """Let parameters that make the same steps share one count, and no others.

        Those that begin now begin together; those that move now leave behind the ones that shared
        their count and do not.
        """
        fresh: dict[Any, Cell] = {}
        shared: dict[int, list[dict[str, Any]]] = {}
        for p in params:
            held = self.state[p]
            if "step" not in held:
                # slots without a count come from a state dict of PyTorch's, saved under way
                before, device = 1 if held else 0, p.device
                if (before, device) not in fresh:
                    fresh[before, device] = lasting(
                        lambda: first_step(device) + before,  # noqa: B023 - called at once
                        name="step",
                    )
                held["step"] = fresh[before, device]
            shared.setdefault(id(held["step"]), []).append(held)
        sharers = Counter([id(held["step"]) for held in self.state.values() if "step" in held])
        for number, together in shared.items():
            if len(together) < sharers[number]:
                count = together[0]["step"]
                own = lasting(count.read, name="step")
                for held in together:
                    held["step"] = own

    # state --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options, in PyTorch's form: parameters by their number.

        Returns:
            ``{"state": {number: {name: tensor}}, "param_groups": [options and numbers]}``.
        """
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**{k: v for k, v in g.items() if k != "params"},
             "params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]  # fmt: skip
        state = {
            numbers[id(p)]: {k: v.detach() if isinstance(v, Cell) else v for k, v in held.items()}
            for p, held in self.state.items()
            if id(p) in numbers
        }
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options that ``state_dict`` gave.

        Raises:
            StateError: if the groups or their sizes, or the shape of a slot, do not match.
        """
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise StateError(
                f"loaded state dict has a different number of parameter groups: {len(saved)}, "
                f"the optimizer has {len(self.param_groups)}"
            )
        sizes = [(len(g["params"]), len(s["params"])) for g, s in zip(self.param_groups, saved)]
        if any(a != b for a, b in sizes):
            raise StateError(
                f"loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: {[b for _, b in sizes]} parameters, the optimizer's groups "
                f"have {[a for a, _ in sizes]}"
            )
        found = dict(zip(chain(*(s["params"] for s in saved)), self._parameters(), strict=True))
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        steps: dict[Any, Cell] = {}  # equal counts of a group share one cell, and so one clock
        group_of = {id(p): i for i, g in enumerate(self.param_groups) for p in g["params"]}
        for number, held in state_dict["state"].items():
            p = found.get(number)
            if p is not None:
                state[p] = {k: _restored(k, v, p, group_of[id(p)], steps) for k, v in held.items()}
        for group, options in zip(self.param_groups, saved, strict=True):
            group.update((k, v) for k, v in options.items() if k != "params")
        touch()
        self.state = state

    def _parameters(self) -> Iterable[Cell]:
        return chain.from_iterable(g["params"] for g in self.param_groups)

    def __repr__(self) -> str:
        out = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            out += f"\nParameter Group {i}\n"
            out += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return out + ")"


def _check_parameter(p: Any) -> None:
    if isinstance(p, Cell):
        return
    if isinstance(p, Tensor):
        raise TypeError(
            f"an optimizer gives its parameters new values, and the plain tensor {p.spec!r} never "
            f"changes; write w = fx.nn.Parameter(w) and use w from there on, or update it with "
            f"fx.optim.pure"
        )
    raise TypeError(f"optimizer can only optimize Parameters, but one of the params is {type(p)}")


def _begin(held: dict[str, Any], names: tuple[str, ...], x: Tensor) -> None:
    """Fill in the slots that are missing: all of them before a parameter's first step."""
    for name in names:
        if name not in held:
            held[name] = lasting(lambda: zeros(x), name=name)


def _restored(name: str, value: Any, p: Cell, group: int, steps: dict[Any, Cell]) -> Any:
    if value is None or isinstance(value, str):
        return value
    x = as_tensor(value)
    if name == "step":
        key = group, float(x), x.dtype
        if key not in steps:
            steps[key] = Cell(x.detach(), name=name)
        return steps[key]
    if x.shape != p.shape:
        raise StateError(
            f"loaded state dict holds {name} of shape {x.shape} for a parameter of shape {p.shape}"
        )
    return Cell(x.detach() if x.dtype == p.dtype else astype(x, dtype=p.dtype), name=name)
