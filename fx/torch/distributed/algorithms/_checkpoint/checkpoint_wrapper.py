"""``...checkpoint_wrapper``: modules whose inner values the backward pass computes again."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import Any

from fx.nn.fully_sharded.wrapping import lambda_auto_wrap_policy, wrap_below
from fx.torch._absent import refusing
from fx.torch.utils.checkpoint import checkpoint


class CheckpointImpl(Enum):
    """Accepted: there is one way."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class CheckpointWrapper:
    """What ``checkpoint_wrapper`` makes of a module's class."""

    _checkpointed: Callable[..., Any]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._checkpointed(super().forward, *args, **kwargs)  # type: ignore[misc]


def checkpoint_wrapper(
    module: Any,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Any:
    """The module, which keeps its inputs alone for the backward pass; no name gets a prefix.

    Args:
        module: changed in place, and given back.
        checkpoint_impl: accepted.
        checkpoint_fn: instead of ``torch.utils.checkpoint.checkpoint``.
        checkpoint_fn_kwargs: its options.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        ...     checkpoint_wrapper,
        ... )
        >>> block = checkpoint_wrapper(torch.nn.Linear(2, 2))
        >>> block(torch.ones(3, 2)).shape, list(block.state_dict())
        (torch.Size([3, 2]), ['weight', 'bias'])
    """
    if not isinstance(checkpoint_impl, CheckpointImpl):
        raise TypeError(
            f"checkpoint_wrapper: a CheckpointImpl is expected, got {checkpoint_impl!r}"
        )
    if not isinstance(module, CheckpointWrapper):
        kind = type(module)
        module.__class__ = type(
            f"Checkpointed{kind.__name__}", (CheckpointWrapper, kind),
            {"__module__": kind.__module__},
        )  # fmt: skip
    module.__dict__["_checkpointed"] = partial(checkpoint_fn or checkpoint, **checkpoint_fn_kwargs)
    return module


def apply_activation_checkpointing(
    model: Any,
    checkpoint_wrapper_fn: Callable[..., Any] = checkpoint_wrapper,
    check_fn: Callable[[Any], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap the modules below a model that ``check_fn``, or a policy, chooses."""
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_below(model, policy, checkpoint_wrapper_fn, set())


__getattr__ = refusing("distributed.algorithms._checkpoint.checkpoint_wrapper")
