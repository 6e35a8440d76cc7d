"""What the workers of ``cases_rpc.py`` call in each other."""

import time

import fx.distributed.rpc as rpc
from fx.distributed import references


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
