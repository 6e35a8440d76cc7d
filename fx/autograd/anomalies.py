"""Anomalies: a backward pass that is watched names the line of the user's whose gradient is NaN.

Nothing is paid for it while nobody looks: looking replaces what numbers the nodes of the tape by a
function that notes the line too, and lets jitted functions run uncompiled, so that every operation
has a node and a line.
"""

from __future__ import annotations

from itertools import islice
from linecache import getline
from typing import Any

from numpy import ndarray

import fx.tape as tape
from fx.backward_pass import watch
from fx.config import modes, run_plainly
from fx.frames import user_frame
from fx.tensor import Tensor

_number = tape._sequence
_lines: dict[int, tuple[str, int]] = {}  # of nodes, by their numbers
_MOST = 1 << 20  # how many lines are kept; the newest
_state = [False, True]  # whether anomalies are looked for, and NaN is one then


def state() -> tuple[bool, bool]:
    """Whether anomalies are looked for, and whether a NaN is one."""
    return _state[0], _state[1]


def look(mode: bool, check_nan: bool = True) -> None:
    """Look for anomalies from now on, in all threads, or no longer."""
    if modes.stage is not None:
        modes.stage.give_up("it looks for anomalies of backward passes, which are not compiled")
    _state[:] = bool(mode), bool(check_nan)
    tape._sequence = _noting if mode else _number
    watch(_refuse_nan if mode and check_nan else None)
    run_plainly(bool(mode))
    if not mode:
        _lines.clear()


def _noting() -> int:
    """The number of a new node, whose line is noted."""
    number = _number()
    frame = user_frame(2)
    if frame is not None:
        _lines[number] = frame.f_code.co_filename, frame.f_lineno
        if len(_lines) > _MOST:
            for old in list(islice(_lines, _MOST // 2)):
                _lines.pop(old, None)
    return number


def _refuse_nan(node: Any, cotangents: Any) -> None:
    for i, ct in enumerate(cotangents):
        while type(ct) is not Tensor and isinstance(ct, Tensor):  # of all lanes, or of a transform
            ct = getattr(ct, "value", None)
        if ct is not None and isinstance(ct._a, ndarray) and (ct._a != ct._a).any():
            raise RuntimeError(
                f"Function '{node.name()}' returned nan values in its {i}th output; "
                f"{_forward_line(node)}"
            )


def _forward_line(node: Any) -> str:
    at = _lines.get(node.seq)
    if at is None:
        return (
            "its forward line is not known, as it ran before anomalies were looked for; begin "
            "detect_anomaly before the forward pass"
        )
    source = getline(*at).strip()
    return f"it belongs to the forward line {at[0]}:{at[1]}" + (f": {source}" if source else "")
