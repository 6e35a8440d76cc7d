"""What a checkpoint keeps of the parts of a training run, and how they get it back."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fx.config import modes
from fx.errors import FxError, StateError
from fx.random.generator import Generator, default_generator
from fx.state import Cell
from fx.tensor import Tensor


def state_of(part: Any) -> Any:
    """What is saved of a part: its state, or itself."""
    if isinstance(part, Generator):
        return part.get_state()
    if isinstance(part, Cell):
        return part.detach()
    return part.state_dict() if hasattr(part, "state_dict") else part


def restore(name: str, part: Any, state: Any) -> None:
    """Let a part have a state when the transaction ends."""
    if isinstance(part, Generator):
        part.set_state(state)
    elif isinstance(part, Cell):
        _rebind(name, part, state)
    else:
        modes.transaction.load(part, state, lambda: _copied(part.state_dict()))


def _rebind(name: str, cell: Cell, value: Any) -> None:
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (cell.shape, cell.dtype):
        raise StateError(
            f"restore: {name} holds {cell.spec!r}, and the checkpoint has "
            f"{value.spec if isinstance(value, Tensor) else type(value).__name__!r}"
        )
    modes.transaction.rebind(cell, value)


def _copied(state: Any) -> Any:
    """Containers copied, so that what changes in place later does not change them."""
    if isinstance(state, dict):
        out = state.copy()
        for key, value in state.items():
            out[key] = _copied(value)
        return out
    if type(state) in (list, tuple):
        return type(state)([_copied(value) for value in state])
    return state


def state_of_random() -> dict[str, Any]:
    """The states of the generators of fx, Python and NumPy."""
    version, words, gauss = random.getstate()
    return {
        "fx": default_generator.get_state(),
        "python": (version, np.array(words, np.uint32), gauss),
        "numpy": np.random.get_state(legacy=False),
    }


def restore_random(state: Any) -> None:
    """Let the generators of fx, Python and NumPy have a state when the transaction ends."""
    probe, probed = random.Random(), np.random.RandomState()
    try:
        version, words, gauss = state["python"]
        probe.setstate((version, tuple(words.tolist()), gauss))
        probed.set_state(state["numpy"])
        default_generator.set_state(state["fx"])
    except FxError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StateError(f"restore: the random state does not fit ({error})") from None
    changes = modes.transaction
    mine: Any = random._inst  # type: ignore[attr-defined]
    changes.call(_set_words, (mine, probe.getstate()[1]), (mine, mine.getstate()[1]))
    changes.set(mine, "gauss_next", gauss)
    before = np.random.get_state(legacy=False)
    changes.call(np.random.set_state, (state["numpy"],), (before,))


_set_words = random.Random.__base__.setstate  # type: ignore[union-attr]
