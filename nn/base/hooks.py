"""Hooks: functions that run before and after a Module's call and its backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from fx.autograd.methods import RemovableHandle
from fx.config import modes
from fx.nn.base.backward_hooks import Watch
from fx.nn.base.capturing import note
from fx.tensor import Tensor
from fx.versions import Hook as Hook
from fx.versions import Hooks, for_all

_BACKWARD = ("_backward_hooks", "_backward_pre_hooks")
_CALLING = ("_forward_pre_hooks", "_forward_hooks", *_BACKWARD)
_registered: dict[str, Hooks] = {kind: Hooks() for kind in ("parameter", "buffer", "module")}

KINDS = frozenset(
    (
        *_CALLING,
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )
)


class Hooking:
    """The part of Module that registers hooks."""

    _hooked: bool = False  # whether a call has to look for hooks

    def _hooks(self, kind: str) -> Hooks:
        """This module's hooks of a kind, made when first asked for."""
        own = self.__dict__
        if kind not in own:
            own[kind] = Hooks()
        return own[kind]  # type: ignore[no-any-return]

    def _add_hook(self, kind: str, hook: Any, prepend: bool = False) -> RemovableHandle:
        if kind in _CALLING:
            self.__dict__["_hooked"] = True
        return _added(self._hooks(kind), hook, prepend)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each call; what it returns replaces ``args``.

        Args:
            hook: gets the positional arguments as a tuple; with ``with_kwargs`` the keyword
                arguments too, and returns ``(args, kwargs)`` or None.
            prepend: call it before the hooks that are there already.
            with_kwargs: whether it takes the keyword arguments.

        Returns:
            a handle, whose ``remove()`` takes the hook off.

        Example:
            >>> import fx
            >>> layer = fx.nn.Identity()
            >>> handle = layer.register_forward_pre_hook(lambda module, args: args[0] * 2)
            >>> layer(fx.tensor(3.0))
            tensor(6.)
            >>> handle.remove()
        """
        return self._add_hook("_forward_pre_hooks", Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each call; what it returns replaces ``output``.

        Args:
            hook: with ``with_kwargs`` it is called ``hook(module, args, kwargs, output)``.
            prepend: call it before the hooks that are there already.
            with_kwargs: whether it takes the keyword arguments.
            always_call: whether it is called after an error too, with None as the output.

        Example:
            >>> import fx
            >>> model = fx.nn.Sequential(fx.nn.Linear(3, 2), fx.nn.ReLU())
            >>> shapes = []
            >>> for layer in model:
            ...     _ = layer.register_forward_hook(lambda m, args, out: shapes.append(out.shape))
            >>> _ = model(fx.ones((4, 3)))
            >>> shapes
            [(4, 2), (4, 2)]
        """
        return self._add_hook("_forward_hooks", Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in each backward pass through the module.

        The gradients are tuples, one entry a positional argument and an output; None stands for
        what is no floating tensor. What the hook returns replaces ``grad_input``.

        Example:
            >>> import fx
            >>> layer = fx.nn.ReLU()
            >>> _ = layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 10,))
            >>> x = fx.tensor([1.0, -1.0], requires_grad=True)
            >>> layer(x).sum().backward()
            >>> x.grad
            tensor([10.,  0.])
        """
        return self._add_hook("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """``register_full_backward_hook``, under its old name."""
        return self.register_full_backward_hook(hook)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the backward pass goes through the module.

        What it returns replaces ``grad_output``.
        """
        return self._add_hook("_backward_pre_hooks", hook, prepend)


class _ForAll(Hooks):
    """Hooks of all Modules: without any, calls need not look for them."""

    def pop(self, number: int, *default: Any) -> Any:
        out = super().pop(number, *default)
        Hooking._hooked = any(for_all.values())
        return out


for_all.update((kind, _ForAll()) for kind in _CALLING)


def _added(hooks: Hooks, hook: Any, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of a module that has hooks."""
    own = module.__dict__
    found = {kind: [*for_all[kind].values(), *own.get(kind, _NONE).values()] for kind in _CALLING}
    waiting = [hook for hook in found["_forward_hooks"] if hook.always]
    result = None
    try:
        for hook in found["_forward_pre_hooks"]:
            args, kwargs = _changed(hook, hook(module, args, kwargs), args, kwargs)
        watch = None
        if found["_backward_hooks"] or found["_backward_pre_hooks"]:
            watch = Watch(module, found["_backward_hooks"], found["_backward_pre_hooks"])
            args = watch.inputs(args)
        result = module.forward(*args, **kwargs)
        for hook in found["_forward_hooks"]:
            if hook.always:
                waiting.remove(hook)
            changed = hook(module, args, kwargs, result)
            result = result if changed is None else changed
        result = result if watch is None else watch.outputs(result)
        note(module, result)
        return result
    except Exception:
        for hook in waiting:
            try:
                changed = hook(module, args, kwargs, result)
                result = result if changed is None else changed
            except Exception as error:
                warnings.warn(
                    f"module forward hook with ``always_call=True`` raised an exception that was "
                    f"silenced as another error was raised in forward: {error}",
                    stacklevel=3,
                )
        raise


_NONE: dict[int, Any] = {}


def _changed(hook: Hook, out: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments after a pre-hook that returned ``out``."""
    if out is None:
        return args, kwargs
    if not hook.kwargs:
        return (out if isinstance(out, tuple) else (out,)), kwargs
    if isinstance(out, tuple) and len(out) == 2:
        return out
    raise RuntimeError(
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {out}."
    )


# hooks of all Modules ---------------------------------------------------------------------------


def _for_all(kind: str, hook: Any) -> RemovableHandle:
    Hooking._hooked = True
    return _added(for_all[kind], hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before each call of every Module.

    Example:
        >>> import fx
        >>> names = []
        >>> from fx.nn.base.module import register_module_forward_pre_hook
        >>> with register_module_forward_pre_hook(lambda m, args: names.append(m._get_name())):
        ...     _ = fx.nn.Sequential(fx.nn.ReLU())(fx.ones(2))
        >>> names
        ['Sequential', 'ReLU']
    """
    return _for_all("_forward_pre_hooks", Hook(hook, False))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after each call of every Module."""
    return _for_all("_forward_hooks", Hook(hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before each backward pass through every Module."""
    return _for_all("_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` in backward passes through every Module."""
    return _for_all("_backward_hooks", hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a Module gets one; it may return another."""
    return RemovableHandle(_registered["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a Module gets one; it may return another."""
    return RemovableHandle(_registered["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a Module gets one; it may return another."""
    return RemovableHandle(_registered["module"], hook)


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the registration hooks make of a parameter, buffer or submodule."""
    for hook in _registered[kind].values():
        changed = hook(module, name, value)
        value = value if changed is None else changed
    if modes.stage is not None and kind != "module" and type(value.read()) is not Tensor:
        held = module._parameters if kind == "parameter" else module._buffers
        if held.get(name) is not value:  # `self.n += 1` assigns the cell that is there
            modes.stage.registers(module, f"{type(module).__name__}.{name}")
    return value
