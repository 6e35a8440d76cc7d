"""Whether rounding decides what a program of ``twins.py`` gives, by torch alone.

The program runs again under torch with all of its numbers larger or smaller by a few units of
their last digits: ``0.75`` becomes ``0.75 * (1 + 2**-50)``. All move alike, so that equal numbers
stay equal.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

STEPS = (4, -4, 16)  # units of the last digit


class Moved(ModuleType):
    """torch, whose ``tensor`` gives numbers that are a little larger."""

    def __init__(self, torch: Any, factor: float) -> None:
        super().__init__("torch")
        self._torch, self._factor = torch, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def tensor(self, *args: Any, **options: Any) -> Any:
        made = self._torch.tensor(*args, **options)
        if made.is_floating_point() or made.is_complex():
            made.data.mul_(self._factor)
        return made


def decides(run: Callable[[dict[str, Any]], None], names: dict[str, Any], allowed: float) -> bool:
    """Whether a last digit changes a number by as much as a good part of what is allowed.

    Args:
        run: runs the program in the namespace that it is given.
        names: torch's namespace, before the program.
        allowed: the difference that counts for none.
    """
    import torch

    results = []
    for units in (0, *STEPS):
        factor = 1 + units * torch.finfo(torch.get_default_dtype()).eps
        space = {**names, "torch": Moved(torch, factor)}
        run(space)
        results.append([np.ravel(a) for key, x in space.items() if key[0] != "_" for a in _of(x)])
    return any(not _near(results[0], moved, 0.1 * allowed) for moved in results[1:])


def _near(these: list[np.ndarray], those: list[np.ndarray], allowed: float) -> bool:
    shapes = [a.shape for a in these], [a.shape for a in those]
    return shapes[0] == shapes[1] and all(
        np.allclose(a, b, rtol=0.0, atol=allowed, equal_nan=True) for a, b in zip(these, those)
    )


def _of(x: Any) -> Iterator[Any]:
    """The numbers that an object leads to."""
    import torch

    if isinstance(x, torch.Tensor):
        yield x.detach().resolve_conj().resolve_neg().numpy()
        with contextlib.suppress(RuntimeError):  # a view whose history torch does not tell
            yield from _of(x.grad if x.is_leaf else None)
    elif isinstance(x, np.ndarray | float):
        yield np.asarray(x)
    elif isinstance(x, list | tuple | deque):
        for part in x:
            yield from _of(part)
    elif isinstance(x, dict):
        yield from _of([*x.values()])
    elif isinstance(x, torch.nn.Module):
        yield from _of([*x.parameters(), *x.buffers()])
    elif type(x).__module__ == "program" and not isinstance(x, type):
        yield from _of(vars(x))
