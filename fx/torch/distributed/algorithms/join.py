"""``torch.distributed.algorithms.join``: ranks with different numbers of iterations."""

from fx.distributed.uneven import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
