"""Which modules of a model ``FullyShardedDataParallel`` makes units of: the policies.

Source: ``torch.distributed.fsdp.wrap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fx.errors import ArgumentError
from fx.nn.base.containers import ModuleDict, ModuleList
from fx.nn.base.module import Module
from fx.nn.sequences.attention import MultiheadAttention

Wrap = Callable[..., Any]
_enabled: list[tuple[Any, dict[str, Any]]] = []  # of the enable_wrap blocks that are open


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module."""
    return True


def lambda_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Any], bool]
) -> bool:
    """The modules for which ``lambda_fn`` is true."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Any, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: Iterable[type]
) -> bool:
    """The modules of some classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Any,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 100_000_000,
    force_leaf_modules: set[type] | None = None,
    exclude_wrap_modules: set[type] | None = None,
) -> bool:
    """The modules that have so many parameters which are in no unit below them."""
    leaves = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    never = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    refused = leaves if recurse else never
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(refused))


class ModuleWrapPolicy:
    """The modules of some classes.

    Example:
        >>> import fx
        >>> from fx.nn.fully_sharded.wrapping import ModuleWrapPolicy
        >>> policy = ModuleWrapPolicy({fx.nn.Linear})
        >>> policy(fx.nn.Linear(2, 2), recurse=False), policy(fx.nn.ReLU(), recurse=False)
        (True, False)
    """

    def __init__(self, module_classes: Iterable[type]) -> None:
        self._classes = tuple(module_classes)

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        return recurse or isinstance(module, self._classes)

    def __repr__(self) -> str:
        return f"ModuleWrapPolicy({set(self._classes)})"


class CustomPolicy:
    """The modules for which a function gives True, or a dict of options of their own."""

    def __init__(self, lambda_fn: Callable[[Any], bool | dict[str, Any]]) -> None:
        self._of = lambda_fn

    def __call__(self, module: Any, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        if recurse:
            return True
        found = self._of(module)
        if not isinstance(found, bool | dict):
            raise ArgumentError(
                f"CustomPolicy: the function gives a bool or a dict of options, got {found!r}"
            )
        return found is True or dict(found or {}) or found == {}


def wrap_below(module: Any, policy: Any, wrap: Wrap, ignored: set[int]) -> None:
    """Make units of the modules below one that a policy wants, from the inside out.

    Args:
        module: is none itself.
        policy: as ``size_based_auto_wrap_policy``.
        wrap: takes a module and options.
        ignored: the ids of modules and parameters that are left alone.
    """
    for name, child in list(module._modules.items()):
        if child is not None and id(child) not in ignored:
            module._modules[name] = _wrapped(child, policy, wrap, ignored)[0]


def _wrapped(module: Any, policy: Any, wrap: Wrap, ignored: set[int]) -> tuple[Any, int]:
    """The module, and how many elements of its parameters are in units."""
    count = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    if not policy(module=module, recurse=True, nonwrapped_numel=count):
        return module, 0
    inside = 0
    for name, child in list(module._modules.items()):
        if child is not None and id(child) not in ignored:
            module._modules[name], its = _wrapped(child, policy, wrap, ignored)
            inside += its
    wanted = policy(module=module, recurse=False, nonwrapped_numel=count - inside)
    if wanted is False or wanted is None:
        return module, inside
    return wrap(module, **(wanted if isinstance(wanted, dict) else {})), count


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Let ``wrap(module)`` inside of the block be ``wrapper_cls(module, **wrapper_kwargs)``."""
    _enabled.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _enabled.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """The module, made a unit where an ``enable_wrap`` block is open."""
    if not _enabled:
        return module
    kind, options = _enabled[-1]
    return kind(module, **{**options, **wrap_overrides})
