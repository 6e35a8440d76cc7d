"""Optimizer: parameter groups, state, and the step that rebinds parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

from fx.config import enable_grad, modes, no_grad
from fx.errors import StateError
from fx.gradients import drop_gradients, set_gradients
from fx.holding import register
from fx.optim._held import Groups, Slots, States
from fx.optim._holding import Steps
from fx.optim._hooks import Hooks, with_hooks
from fx.optim._hooks import register_optimizer_step_post_hook as register_optimizer_step_post_hook
from fx.optim._hooks import register_optimizer_step_pre_hook as register_optimizer_step_pre_hook
from fx.optim._rule import Clock, Rule, check_dtype, zeros
from fx.optim._state import number_of, option, restored, saved
from fx.optim._steps import Step, begin_slots, first_counts, has_moved, made_for, make_steps
from fx.state import Cell, snapshot
from fx.tensor import Tensor
from fx.transaction import consistent, whole
from fx.versions import changes, note_change, touch
from fx.writing.inplace import cell_of, user_writes

_slot = dict.__getitem__


class _Required:
    """A default that every group must give itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
ParamsT = Iterable[Any]  # parameters, pairs of a name and a parameter, or dicts


class Optimizer(Hooks):
    """What every optimizer shares, as ``torch.optim.Optimizer``.

    A step computes new values and rebinds the parameters; nothing is written into, so a tensor that
    was read from a parameter before keeps its value. The arithmetic is that of the pure form in
    ``fx.optim.pure``. ``foreach``, ``fused`` and ``capturable`` choose among PyTorch's
    implementations and change nothing here; ``differentiable=True`` is refused, since rebinding
    drops history: the pure form differentiates.

    An optimizer of your own derives from this class, calls ``super().__init__(params, defaults)``
    and has a ``step`` that goes through ``param_groups``, keeps what it likes in
    ``self.state[p]`` and rebinds parameters in place inside ``fx.no_grad()``.

    Args:
        params: parameters, pairs of a name and a parameter, or dicts with ``"params"`` and options
            of a group.
        defaults: the options of groups that do not give them.

    Raises:
        TypeError: if ``params`` holds something else than Parameters.
        ValueError: if it is empty, or a parameter is in two groups.
    """

    rule: ClassVar[Rule | None] = None
    _slots: ClassVar[Any] = Slots  # what is kept for a parameter, where compiled steps change it
    param_groups: list[dict[str, Any]]
    state: States

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self._begin_hooks()
        if defaults.get("fused"):
            for other in ("differentiable", "foreach"):
                if defaults.get(other):
                    raise RuntimeError(f"`fused` and `{other}` cannot be `True` together.")
        if defaults.get("differentiable") and self.rule is not None:
            raise ValueError(
                f"{type(self).__name__}: differentiable=True is not possible, since a Parameter "
                f"drops the history of what it is rebound to; use fx.optim.pure, whose update is a "
                f"function that every transform differentiates"
            )
        self.defaults = defaults
        self.state = States((), self._slots)
        self.param_groups = Groups()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Parameters or "
                "dicts, but got one tensor; write [parameter]"
            )
        if not isinstance(params, Iterable):
            given = "a Module" if hasattr(params, "parameters") else f"a {type(params).__name__}"
            write = "model.parameters()" if given == "a Module" or callable(params) else "[...]"
            raise TypeError(
                f"params argument given to the optimizer should be an iterable of Parameters or "
                f"dicts, but got {given}; write {type(self).__name__}({write}, ...)"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        if self.rule is not None:
            self.rule.check(defaults)
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own.

        Args:
            param_group: ``"params"``, and options that differ from the defaults.

        Raises:
            TypeError: if it is no dict, or holds something else than Parameters.
            ValueError: if a parameter is in a group already, some parameters have names and others
                do not, or an option is out of range.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        listed = group["params"]
        if isinstance(listed, Tensor):
            listed = [listed]
        elif isinstance(listed, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        listed = list(listed)
        names = [p[0] for p in listed if isinstance(p, tuple)]
        if names:
            if len(names) < len(listed):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing; write (name, parameter) for each"
                )
            group["param_names"] = names
            listed = [p for _, p in listed]
        listed = [_checked_parameter(p) for p in listed]
        group["params"] = listed
        for name, value in self.defaults.items():
            if value is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, value)
        if self.rule is not None:
            self.rule.check(group)
            for p in listed:
                check_dtype(type(self).__name__, self.rule, p)
        if any(("param_names" in group) != ("param_names" in g) for g in self.param_groups):
            kind = "with" if "param_names" in group else "without"
            raise ValueError(
                f"all optimizer param groups should be with/without names. cannot add param group "
                f"{kind} names to the optimizer"
            )
        known = {id(p) for p in self._parameters()}
        if len({id(p) for p in listed}) < len(listed) or known & {id(p) for p in listed}:
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or make them zero."""
        if set_to_none:  # whether there was one is not asked: jit would guard on it
            drop_gradients([*self._parameters()])
            return
        found = [(p, p.read_grad()) for p in self._parameters()]
        set_gradients([(p, zeros(grad)) for p, grad in found if grad is not None])

    @with_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make one step along the gradients; parameters without one stay.

        Args:
            closure: computes the loss and its gradients first; its result is returned.
        """
        if self.rule is None:
            raise NotImplementedError(f"{type(self).__name__} must define step(self, closure=None)")
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            make_steps([self._ready(group, self.rule) for group in self.param_groups], self.rule)
        return loss

    def _ready(self, group: dict[str, Any], rule: Rule) -> Step:
        """What a group's step is made from; state that is missing is made."""
        moving = [(p, p.read_grad()) for p in group["params"]]
        moving = [(p, g) for p, g in moving if g is not None]
        counts = rule.counts(group)
        if counts:
            self._in_step([p for p, _ in moving], group, rule, counts)
        clocks: dict[int, tuple[dict[str, Cell], Clock]] = {}  # of parameters in step
        idle = None if counts else Clock(rule, group, {})
        ready = []
        names = rule.slots(group, moving[0][0]) if rule.elementwise and moving else ()
        for p, g in moving:
            if not rule.elementwise:
                names = rule.slots(group, p)
            held = self.state[p] if names or counts else {}
            if len(held) < len(names) + len(counts):
                begin_slots(held, names, p, group, rule)
            clock = idle
            if clock is None:
                key = id(_slot(held, "step"))
                if key not in clocks:
                    cells = {name: _slot(held, name) for name in counts}
                    before = {name: cell.read() for name, cell in cells.items()}
                    clocks[key] = cells, Clock(rule, group, before)
                clock = clocks[key][1]
            ready.append((p, g, held, clock))
        return Step(group, ready, names, list(clocks.values()))

    def _begin_all(self) -> None:
        """Make the state of all parameters before the first step."""
        for group in self.param_groups:
            counts = self.rule.counts(group)
            self._in_step(group["params"], group, self.rule, counts)
            for p in group["params"]:
                begin_slots(self.state[p], self.rule.slots(group, p), p, group, self.rule)

    def _in_step(
        self, params: list[Cell], group: dict[str, Any], rule: Rule, counts: tuple[str, ...]
    ) -> None:
        """Let parameters that make the same steps share their counts, and no others.

        Those that begin now begin together; those that move now leave behind the ones that shared
        their counts and do not.
        """
        fresh: dict[Any, dict[str, Cell]] = {}
        shared: dict[int, list[dict[str, Any]]] = {}
        for p in params:
            held = self.state[p]
            if "step" not in held:
                # slots without a count come from a state dict of PyTorch's, saved under way
                before, device = 1 if held else 0, p.device
                if (before, device) not in fresh:
                    fresh[before, device] = first_counts(rule, group, counts, p, before)
                held.fill(fresh[before, device])
            shared.setdefault(id(_slot(held, "step")), []).append(held)
        steps = [_slot(held, "step") for held in self.state.values() if "step" in held]
        sharers = Counter(map(id, steps))
        for number, together in shared.items():
            if len(together) < sharers[number]:
                old = {name: _slot(together[0], name) for name in counts}
                if any(map(has_moved, old.values())):
                    modes.stage.postpone()
                own = {name: made_for(cell, cell.read, name) for name, cell in old.items()}
                for held in together:
                    held.fill(own)

    # state --------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State and options, in PyTorch's form: parameters by their number.

        Returns:
            ``{"state": {number: {name: tensor}}, "param_groups": [options and numbers]}``; the
            tensors are those of this moment, which no later step changes.
        """
        self._run("state_dict_pre", self)
        return self._run("state_dict_post", self, consistent(self._saved))

    def _saved(self) -> dict[str, Any]:
        numbers = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**{k: v for k, v in dict.items(g) if k != "params"},
             "params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]  # fmt: skip
        items = list(self.state.items())
        cells = {id(c): c for _, held in items if isinstance(held, dict)
                 for c in held.values() if isinstance(c, Cell)}  # fmt: skip
        values = dict(zip(cells, snapshot([*cells.values()])))
        state = {
            number_of(p, numbers): saved(held, self.rule, values) if isinstance(p, Tensor) else held
            for p, held in items
        }
        return {"state": state, "param_groups": groups}

    @whole
    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over state and options that ``state_dict`` gave, of PyTorch's optimizer too.

        All of it changes in one instant; an error or a signal leaves the optimizer as it was.

        Raises:
            StateError: if the groups or their sizes, or the shape of a slot, do not match.
        """
        if modes.stage is not None:
            modes.stage.give_up("it loads the state of an optimizer; call load_state_dict outside")
        changes = modes.transaction
        state_dict = dict(state_dict)
        if self._optimizer_load_state_dict_pre_hooks:
            state_dict = changes.outside(self._run, "load_state_dict_pre", self, state_dict)
        found = state_dict["param_groups"]
        if len(found) != len(self.param_groups):
            raise StateError(
                f"loaded state dict has a different number of parameter groups: {len(found)}, "
                f"the optimizer has {len(self.param_groups)}"
            )
        sizes = [(len(g["params"]), len(s["params"])) for g, s in zip(self.param_groups, found)]
        if any(a != b for a, b in sizes):
            raise StateError(
                f"loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: {[b for _, b in sizes]} parameters, the optimizer's groups "
                f"have {[a for a, _ in sizes]}"
            )
        groups = self.param_groups
        state = restored(state_dict["state"], found, groups, self.rule, self._slots)
        changes.set(self, "state", state)
        for group, options in zip(groups, found, strict=True):
            changes.update(group, {k: option(v) for k, v in options.items() if k != "params"})
        if self._optimizer_load_state_dict_post_hooks:
            changes.outside(self._run, "load_state_dict_post", self)

    def _parameters(self) -> Iterable[Cell]:
        return chain.from_iterable(g["params"] for g in self.param_groups)

    def __getstate__(self) -> dict[str, Any]:
        return {k: self.__dict__[k] for k in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self.__dict__.setdefault("_opt_called", False)  # a scheduler may have come along
        self._begin_hooks()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state" and type(value) is not States:
            value = States(value, self._slots)
        elif name == "param_groups" and type(value) is not Groups:
            value = Groups(value)
        before = self.__dict__.get(name, changes)
        object.__setattr__(self, name, value)
        note_change(before, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        touch()

    def __repr__(self) -> str:
        out = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            out += f"\nParameter Group {i}\n"
            out += "".join(f"    {k}: {group[k]}\n" for k in sorted(group) if k != "params")
        return out + ")"


def _checked_parameter(p: Any) -> Cell:
    if isinstance(p, Cell):
        return p
    if isinstance(p, Tensor) and user_writes():
        return cell_of(p)  # type: ignore[no-any-return]
    if isinstance(p, Tensor):
        raise TypeError(
            f"an optimizer gives its parameters new values, and the plain tensor {p.spec!r} never "
            f"changes; write w = fx.nn.Parameter(w) and use w from there on, or update it with "
            f"fx.optim.pure"
        )
    raise TypeError(f"optimizer can only optimize Parameters, but one of the params is {type(p)}")


register(Optimizer, Steps())
