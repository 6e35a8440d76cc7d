"""What the workers of ``cases_rpc.py`` call in each other."""

import threading
import time

import fx
import fx.distributed.rpc as rpc
from fx.distributed import references
from fx.distributed.calls import Future, async_execution


class Box:
    def __init__(self, value):
        self.value = value

    def plus(self, more=0):
        return self.value + more


class Unmade(Exception):
    """Cannot be made again of its args."""

    def __init__(self, one, two):
        super().__init__("unmade")


def boom(kind="key"):
    if kind == "exit":
        raise SystemExit(3)
    raise KeyError("boom") if kind == "key" else Unmade(1, 2)


def layer(n, m):
    """A linear layer, the same in every worker."""
    fx.manual_seed(10 * n + m)
    return fx.nn.Linear(n, m)


def through(module, hidden):
    """A call within a call: a module of a third worker, of what this one makes."""
    return module.rpc_sync().forward(fx.tanh(hidden))


def slow(seconds, value=None):
    time.sleep(seconds)
    return value


def bounce(depth):
    """Calls within calls, to and fro."""
    here = rpc.get_worker_info().id
    return [here] + (rpc.rpc_sync((here + 1) % 2, bounce, (depth - 1,)) if depth else [])


def about(ref):
    return ref.is_owner(), ref.owner_name(), ref.to_here().value


def give_back(ref):
    return ref


def held():
    return len(references._held)


def doubled(x):
    return 2 * x


waiting = []
_meeting = threading.Lock()


@async_execution
def meet(count, value):
    """The values of all that came, once so many have: each caller gets the list."""
    answer = Future()
    with _meeting:
        waiting.append((answer, value))
        if len(waiting) == count:
            values = sorted(v for _, v in waiting)
            for each, _ in waiting:
                each.set_result(values)
            waiting.clear()
    return answer


@async_execution
def no_future():
    return 3
