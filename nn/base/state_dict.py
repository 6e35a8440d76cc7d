"""Saving a Module's values by path and loading them back, with PyTorch's keys and messages."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from fx.autograd.methods import RemovableHandle
from fx.config import modes, no_grad, writing
from fx.errors import FxError, StateError
from fx.nn.base.uninitialized import is_lazy
from fx.ops.convert import as_tensor
from fx.ops.indexing import views
from fx.ops.operands import own
from fx.seen import Size, face
from fx.state import Cell, snapshot
from fx.tensor import Tensor
from fx.transaction import whole
from fx.versions import Hooks

EXTRA = "_extra_state"
_NONE: dict[int, Any] = {}
_REFUSALS = (FxError, TypeError, ValueError, RuntimeError, BufferError, AttributeError)


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


class _PostHook:
    """A state-dict hook that may only change the dict in place."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> None:
        if self.function(*args) is not None:
            raise RuntimeError("state_dict post-hook must return None")


class _OfModule:
    """A load hook that gets the module first."""

    __slots__ = ("function", "module")

    def __init__(self, function: Callable[..., Any], module: Any) -> None:
        self.function = function
        self.module = module

    def __call__(self, *args: Any) -> Any:
        return self.function(self.module, *args)


class Saving:
    """The part of Module that saves and loads its state."""

    _version: int = 1  # of the format of this class's state, kept in ``state_dict()._metadata``
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]
    _hooks: Callable[[str], Hooks]

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The values of parameters and persistent buffers by path, in PyTorch's order.

        Args:
            *args: the others by position, as older code gives them.
            destination: a dict to put them into.
            prefix: put before every key.
            keep_vars: give the cells themselves instead of their values.

        Example:
            >>> import fx
            >>> list(fx.nn.Linear(3, 2).state_dict())
            ['weight', 'bias']
        """
        if args:
            warnings.warn(
                "state_dict: arguments by position are deprecated; write "
                "state_dict(destination=..., prefix=..., keep_vars=...)",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and not keep_vars else keep_vars
        outermost = destination is None
        if outermost:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
            # a shared parameter has one value, and all values are of one instant
            cells = [] if keep_vars else [*self.parameters(), *self.buffers()]  # type: ignore[attr-defined]
            values = snapshot(cells)
            if views.share is not None:  # who writes into one writes into the model
                values = [*map(views.share, cells, values)]
            destination._values = dict(zip(map(id, cells), values))
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        own = self.__dict__
        for hook in own.get("_state_dict_pre_hooks", _NONE).values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        held = destination
        for hook in own.get("_state_dict_hooks", _NONE).values():
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        if outermost:
            held.__dict__.pop("_values", None)
        return destination

    def _persistent(self) -> dict[str, Any]:
        """Parameters and persistent buffers of this module alone, without None."""
        unsaved = self._non_persistent_buffers_set
        held = {**self._parameters}
        held.update((k, v) for k, v in self._buffers.items() if k not in unsaved)
        return {name: value for name, value in held.items() if value is not None}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put the state of this module, not of those below, into ``destination``."""
        values = getattr(destination, "_values", None)
        for name, cell in self._persistent().items():
            if keep_vars:
                value = cell
            elif values is None:
                value = cell.detach()
            elif id(cell) in values:
                value = values[id(cell)]
            else:
                value = values[id(cell)] = cell.detach()
            destination[prefix + name] = value
        if type(self).get_extra_state is not Saving.get_extra_state:
            destination[prefix + EXTRA] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """What a subclass wants in its state dict besides tensors; under ``_extra_state``."""
        raise RuntimeError(
            f"{type(self).__name__} has no extra state; define get_extra_state and set_extra_state"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what ``get_extra_state`` gave."""
        raise RuntimeError(
            f"{type(self).__name__} has no extra state; define get_extra_state and set_extra_state"
        )

    @whole
    def load_state_dict(
        self, state_dict: Any, strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Rebind parameters and buffers to the values of a state dict: all of them, or none.

        They change in one instant, also for other threads and for what a signal handler raises;
        hooks and methods of your own see what was loaded before they run, and an error takes it
        back.

        Args:
            state_dict: values by path, as ``state_dict()`` gives them.
            strict: whether missing and unexpected keys are errors.
            assign: take the dtype and device of the values too, instead of casting them to the
                module's. The parameters stay the same objects, so that optimizers go on.

        Returns:
            ``missing_keys`` and ``unexpected_keys``.

        Raises:
            StateError: listing missing and unexpected keys and sizes that differ.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state: Any = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata
        with no_grad():
            _load(self, state, "", metadata, assign, (missing, unexpected, errors))
        if writing.watched:
            writing.stepped()
        if strict:
            for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise StateError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return IncompatibleKeys(missing, unexpected)

    @whole
    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take the state of this module, not of those below, from ``state_dict``."""
        rest = (local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        for hook in self.__dict__.get("_load_state_dict_pre_hooks", _NONE).values():
            modes.transaction.outside(hook, state_dict, prefix, *rest)
        assign = local_metadata.get("assign_to_params_buffers", False)
        known = self._persistent()
        for name, held in known.items():
            key = prefix + name
            if key in state_dict:
                _take(self, name, held, key, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA
        if type(self).set_extra_state is not Saving.set_extra_state:
            if extra in state_dict:
                modes.transaction.outside(self.set_extra_state, state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    name, _, below = key[len(prefix) :].partition(".")
                    if name not in (self._modules if below else known):
                        unexpected_keys.append(key)

    # hooks --------------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` when the state is saved.

        It changes the dict in place and returns None.
        """
        return RemovableHandle(self._hooks("_state_dict_hooks"), _PostHook(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same, of a hook that may return another dict."""
        return RemovableHandle(self._hooks("_state_dict_hooks"), hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state is saved."""
        return RemovableHandle(self._hooks("_state_dict_pre_hooks"), hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook`` before this module takes its part of a state dict.

        Args:
            hook: ``(module, state_dict, prefix, local_metadata, strict, missing_keys,
                unexpected_keys, error_msgs)``; it may change the dict and the lists.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """The same, without the module unless told."""
        called = _OfModule(hook, self) if with_module else hook
        return RemovableHandle(self._hooks("_load_state_dict_pre_hooks"), called)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after the module has loaded its state.

        It may change the lists ``missing_keys`` and ``unexpected_keys`` in place.
        """
        return RemovableHandle(self._hooks("_load_state_dict_post_hooks"), hook)


def _load(
    module: Any, state: Any, prefix: str, metadata: Any, assign: bool, found: tuple[Any, ...]
) -> None:
    """Load a module and those below; ``found`` is of missing keys, unexpected keys and errors."""
    local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    load = module._load_from_state_dict
    if type(module)._load_from_state_dict.__module__.startswith("fx."):
        load(state, prefix, local, True, *found)
    else:
        modes.transaction.outside(load, state, prefix, local, True, *found)
    for name, below in module._modules.items():
        if below is not None:
            start = f"{prefix}{name}."
            part = {k: v for k, v in state.items() if k.startswith(start)}
            _load(below, part, start, metadata, assign, found)
    keys = IncompatibleKeys(*found[:2])
    for hook in module.__dict__.get("_load_state_dict_post_hooks", _NONE).values():
        if modes.transaction.outside(hook, module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _take(
    module: Any, name: str, held: Any, key: str, given: Any, assign: bool, errors: list[str]
) -> None:
    """Rebind one parameter or buffer to what the state dict holds for it."""
    if not isinstance(given, Tensor | np.ndarray) and not hasattr(given, "__dlpack__"):
        errors.append(
            f'While copying the parameter named "{key}", expected fx.Tensor or '
            f"np.ndarray from checkpoint but received {type(given)}"
        )
        return
    try:
        if is_lazy(held) and is_lazy(given):
            return
        value = as_tensor(given).detach()
        if not held.shape and value.shape == (1,):
            value = value[0]
        if value.shape != held.shape:
            shown = Size if face() == "torch" else tuple
            errors.append(
                f"size mismatch for {key}: copying a param with shape {shown(value.shape)} from "
                f"checkpoint, the shape in current model is {shown(held.shape)}."
            )
            return
        if not isinstance(held, Cell):  # a Module-shaped object of plain tensors
            setattr(module, name, value if assign else value.astype(held.dtype))
        elif assign:
            modes.transaction.rebind(held, value)
        else:
            there = value.to(held.device, held.dtype)
            modes.transaction.rebind(held, own(value) if there is value else there)
    except _REFUSALS as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{held.shape} and whose dimensions in the checkpoint are {given.shape}, an exception "
            f"occurred : {error.args}."
        )
