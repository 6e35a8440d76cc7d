"""Writes: what ``x[i] = v``, ``x += v`` and ``x.add_(v)`` do where ``fx.torch`` is imported.

``fx/torch/README.md`` says in one page how a write works.
"""

from __future__ import annotations

_ready = False


def enable() -> None:
    """Let the modules of this process that import ``fx.torch`` write."""
    global _ready
    if _ready:
        return
    _ready = True
    from fx.backward_pass import note_writing
    from fx.writing import methods, records

    note_writing(False)
    records.watch_views()
    methods.attach()
