"""Products where memory is short: an answer or a MemoryError, never the end of the process."""

import subprocess
import sys

import pytest

PROGRAM = """
import resource
import numpy as np
import fx
room, shape, threads, before = {room} << 20, {shape}, {threads}, {before}
fx.set_num_threads(threads)
rng = np.random.default_rng(0)
x = fx.from_numpy(rng.normal(size=shape).astype("f4"))
y = fx.from_numpy(rng.normal(size=(*shape[:-2], shape[-1], shape[-2])).astype("f4"))
if before:
    fx.ones((before, before)) @ fx.ones((before, before))
want = np.einsum("...ik,...kj->...ij", np.asarray(x), np.asarray(y))
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + room, hard))
try:
    got = x @ y
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    assert np.allclose(np.asarray(got), want, atol=1e-2)
    print("right")
except MemoryError:
    print("no memory")
"""
SHAPES = [(500, 400), (90, 70), (12, 12), (3000, 20), (20, 3000), (6, 120, 120)]
ROOMS = (0, 9, 31, 35, 45, 70)


def run(**of):
    of = {"threads": 2, "before": 0, **of}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(**of)], capture_output=True, text=True
    )
    assert done.stdout in ("right\n", "no memory\n"), (of, done.returncode, done.stderr[-500:])
    return done.stdout


@pytest.mark.parametrize("room", ROOMS)
def test_products_where_memory_is_short(room):
    number = ROOMS.index(room)
    run(room=room, shape=SHAPES[number % 6], threads=1 + number % 4, before=8 * (number % 3 == 2))
    run(room=room, shape=SHAPES[(number + 3) % 6], threads=1 + number // 3)


def test_with_room_products_are_right():
    assert run(room=400, shape=(500, 400), threads=3) == "right\n"
    assert run(room=60, shape=(300, 300), threads=2, before=300) == "right\n"  # what is kept
