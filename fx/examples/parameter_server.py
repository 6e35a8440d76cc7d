"""A parameter server: one worker has the weights, and the others send it gradients by RPC.

Three processes: ``python -m fx.run --nproc-per-node 3 -m fx.examples.parameter_server``, or each
by ``python -m fx.examples.parameter_server`` with ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
``MASTER_PORT``.
"""

from __future__ import annotations

import threading

import fx
import fx.distributed.rpc as rpc
from fx.examples import parameter_server as here  # by this name the others import it
from fx.tensor import Tensor

STEPS, RATE = 150, 0.2


class Server:
    """Weights, which trainers read, and change by their gradients."""

    def __init__(self, size: int) -> None:
        self._weights, self._lock = fx.zeros(size), threading.Lock()

    def weights(self) -> Tensor:
        """The weights now; (size,)."""
        return self._weights

    def step(self, gradient: Tensor) -> None:
        """One step of gradient descent."""
        with self._lock:
            self._weights = self._weights - RATE * gradient


def batch(rank: int) -> tuple[Tensor, Tensor]:
    """A trainer's part of the data; (64, 4) and (64,)."""
    x = fx.random.normal(fx.random.key(rank), (64, 4))
    return x, x @ fx.tensor([1.0, -2.0, 3.0, 0.5])


def loss(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The mean of squares."""
    return ((x @ weights - y) ** 2).mean()


def train(server: rpc.RRef) -> float:
    """Steps of one trainer; its last loss."""
    x, y = batch(rpc.get_worker_info().id)
    for _ in range(STEPS):
        server.rpc_sync().step(fx.grad(loss)(server.rpc_sync().weights(), x, y))
    return float(loss(server.rpc_sync().weights(), x, y))


def main() -> None:
    """Worker 0 asks all others to train."""
    import os

    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=size)
    if rank == 0:
        server = rpc.RRef(here.Server(4))
        asked = [rpc.rpc_async(r, here.train, (server,)) for r in range(1, size)]
        print("losses", *(f"{a.wait():.6f}" for a in asked))
        print("weights", [round(w, 3) for w in server.local_value().weights().tolist()])
    rpc.shutdown()


if __name__ == "__main__":
    main()
