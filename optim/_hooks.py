"""Hooks of optimizers: functions that run before and after steps and state dicts."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

from fx import versions
from fx.autograd.methods import RemovableHandle
from fx.config import writing
from fx.versions import around_steps

Hook = Callable[..., Any]

_before_every_step, _after_every_step = around_steps
_KINDS = (
    "step_pre",
    "step_post",
    "state_dict_pre",
    "state_dict_post",
    "load_state_dict_pre",
    "load_state_dict_post",
)


def register_optimizer_step_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer.

    ``args`` begins with the optimizer, as for all hooks of steps.

    Returns:
        A handle whose ``remove()`` takes the hook off.
    """
    return RemovableHandle(_before_every_step, hook)


def register_optimizer_step_post_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer.

    Returns:
        A handle whose ``remove()`` takes the hook off.
    """
    return RemovableHandle(_after_every_step, hook)


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` method around which hooks run."""

    @wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not self.__dict__.get("_opt_called", True):
            self._opt_called = True  # a scheduler wants to know
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or _before_every_step or _after_every_step):
            out = step(self, *args, **kwargs)
            if writing.watched:
                writing.stepped()
            return out
        args = (self, *args)  # as PyTorch hands them to hooks
        for hook in chain(list(_before_every_step.values()), list(before.values())):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a pre hook must return None or a tuple of "
                        f"(new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
        out = step(*args, **kwargs)
        if writing.watched:
            writing.stepped()
        for hook in chain(list(after.values()), list(_after_every_step.values())):
            hook(self, args, kwargs)
        return out

    hooked.hooked = True  # type: ignore[attr-defined]
    return hooked


class Hooks:
    """The hooks of one optimizer, and the methods that register them."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not hasattr(step, "hooked"):
            cls.step = with_hooks(step)  # type: ignore[attr-defined]

    def _begin_hooks(self) -> None:
        for kind in _KINDS:
            self.__dict__.setdefault(f"_optimizer_{kind}_hooks", versions.Hooks())

    def _register(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        hooks = self.__dict__[f"_optimizer_{kind}_hooks"]
        handle = RemovableHandle(hooks, hook)
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def _run(self, kind: str, *given: Any) -> Any:
        """Call the hooks of a kind; the last argument as they have replaced it."""
        *first, last = given
        for hook in list(self.__dict__[f"_optimizer_{kind}_hooks"].values()):
            changed = hook(*first, last)
            if first and changed is not None:
                last = changed
        return last

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step.

        Args:
            hook: returns None, or the arguments that the step gets instead, ``(args, kwargs)``;
                the first of ``args`` is the optimizer.

        Example:
            >>> import fx
            >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))])
            >>> handle = optimizer.register_step_pre_hook(lambda *_: print("a step"))
            >>> optimizer.step()
            a step
            >>> handle.remove()
        """
        return self._register("step_pre", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return self._register("step_post", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``; first of all with ``prepend``."""
        return self._register("state_dict_pre", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` with a result, which it may replace."""
        return self._register("state_dict_post", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; it may give another dict."""
        return self._register("load_state_dict_pre", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return self._register("load_state_dict_post", hook, prepend)
