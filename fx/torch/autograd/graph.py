"""``torch.autograd.graph``: what is kept for a backward pass, and may be written meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


_disabled: str | None = None


class saved_tensors_hooks:
    """Refused: what a pullback keeps is its own.

    Raises:
        NotImplementedError: when it is entered, with what to write.
        RuntimeError: inside ``disable_saved_tensors_hooks``, with its message.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _disabled is not None:
            raise RuntimeError(_disabled)
        raise NotImplementedError(
            "fx has no saved_tensors_hooks: what a pullback keeps is not handed out; to keep less "
            "write torch.utils.checkpoint.checkpoint(function, x), and fx.ledger(function)(x) "
            "lists what is kept"
        )

    def __exit__(self, *_: Any) -> None:
        pass


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Inside ``with``: what a backward pass needs stays in the memory of the CPU, where it is."""
    yield


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside ``with``: no hooks on saved tensors; who enters some gets this message."""
    global _disabled
    before, _disabled = _disabled, error_message
    try:
        yield
    finally:
        _disabled = before


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """Inside ``with``: tensors that were recorded may be written, as everywhere in fx.

    What a pullback keeps is a value, and a value never changes.

    Example:
        >>> import fx.torch as torch
        >>> a = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors():
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     b.sin_()
        ...     out.backward()
        tensor([0.8415, 0.8415], grad_fn=<SinBackward0>)
        >>> a.grad
        tensor([2., 2.])
    """
    yield
