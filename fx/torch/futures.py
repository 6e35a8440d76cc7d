"""``torch.futures``: answers to come."""

from __future__ import annotations

from typing import Any

from fx.distributed.calls import Future

__all__ = ["Future", "collect_all", "wait_all"]


def wait_all(futures: list[Any]) -> list[Any]:
    """The values of futures, once they are all there."""
    return [future.wait() for future in futures]


def collect_all(futures: list[Any]) -> Future:
    """A future of the list of futures, which are then done."""
    out: Future = Future()
    left = [len(futures)]

    def done(_: Any) -> None:
        left[0] -= 1
        if not left[0]:
            out.set_result(list(futures))

    for future in futures:
        future.add_done_callback(done)
    if not futures:
        out.set_result([])
    return out
