"""Writes: what ``x[i] = v``, ``x += v`` and ``x.add_(v)`` do where ``fx.torch`` is imported.

``fx/torch/README.md`` says in one page what a write does, ``README.md`` here how.
"""

from __future__ import annotations

from typing import Any

from fx.config import writing


def enable() -> None:
    """Let the modules of this process that import ``fx.torch`` write."""
    if writing.enabled:
        return
    writing.enabled = True
    from fx.backward_pass import note_writing
    from fx.writing import dtype_views, lending, methods, noting, storing

    note_writing(False)
    noting.watch_views()
    dtype_views.attach()
    methods.attach()
    writing.summed = storing.place_of_sum
    lending.attach()


def function_of(name: str) -> Any:
    """``torch.relu_`` and the like: a method in place as a function; None if there is none."""
    from fx.handles import Handle
    from fx.tensor import Tensor

    method = Tensor.__dict__.get(name)
    work = getattr(method, "work", None)
    if work is None:
        return None

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input, Handle):  # what `p.data` gave is written as `p.data.relu_()` does it
            return getattr(input, name)(*args, **kwargs)
        return work(input, *args, **kwargs)

    function.__name__ = name
    function.__doc__ = work.__doc__
    return function
