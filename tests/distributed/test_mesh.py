"""Meshes: ranks compute what lanes do, eagerly and compiled; what is wrong is named."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import fx
from fx import P
from tests.distributed import cases_mesh
from tests.distributed.ranks import MPIEXEC, ROOT, SIZES, cases

CASES = cases("cases_mesh.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [*SIZES, 4])
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_mesh.py", size)[case]


WAITING = """
import os, time, fx
from fx.distributed.mesh import world
mesh = fx.Mesh((2,), ("i",))
step = fx.jit(fx.shard_map(lambda x: fx.psum(x, "i"), mesh, fx.P(), fx.P(), local=True))
step(fx.ones(3))
if world()[1]:
    time.sleep(60)
print(os.getpid(), flush=True)
step(fx.ones(3))
"""


def test_a_rank_that_waits_in_compiled_code_can_be_ended():
    command = [str(MPIEXEC), "-n", "2", sys.executable, "-c", WAITING]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    try:
        pid = int(process.stdout.readline())
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        os.kill(pid, signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode != 0
    finally:
        process.terminate()  # mpiexec ends its ranks
        process.wait(10)


# one process ------------------------------------------------------------------------------------


def test_a_mesh_of_one_rank_needs_no_others():
    mesh = fx.Mesh((1,), ("i",))
    f = fx.shard_map(cases_mesh.all_collectives(1), mesh, (P("i"), P()), cases_mesh.OUT_SPECS)
    lanes = fx.Mesh((1,), ("i",), lanes=True)
    g = fx.shard_map(cases_mesh.all_collectives(1), lanes, (P("i"), P()), cases_mesh.OUT_SPECS)
    x, w = cases_mesh.draws((2, 2), False), cases_mesh.draws((2, 3), False, 1)
    for run in (f, fx.jit(f)):
        for a, b in zip(fx.tree.leaves(run(x, w)), fx.tree.leaves(g(x, w)), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    got, want = [fx.grad(lambda w, h=h: cases_mesh.weighted(h(x, w)))(w) for h in (f, g)]
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_lanes_are_the_plain_function():
    mesh = fx.Mesh((2, 2), ("i", "j"), lanes=True)
    x = cases_mesh.draws((4, 6), True)
    f = fx.shard_map(
        lambda x: (x * 2, fx.psum(x.sum(), ("i", "j"))), mesh, P("j", "i"), (P("j", "i"), P())
    )
    doubled, total = f(x)
    np.testing.assert_array_equal(np.asarray(doubled), 2 * np.asarray(x))
    assert float(total) == float(x.sum())


MESH = fx.Mesh((2, 2), ("i", "j"), lanes=True)


def inside(f):
    return fx.shard_map(f, MESH, P(), P())(fx.ones(3))


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (fx.errors.AxisError, "has no axis 'k'; its axes are {'i': 2, 'j': 2}",
         lambda: fx.shard_map(abs, MESH, P("k"), P())),
        (fx.errors.ArgumentError, "names an axis of the mesh twice",
         lambda: fx.shard_map(abs, MESH, P("i", "i"), P())),
        (fx.errors.ShapeError, r"axis 0 of shape \(3,\) cannot be cut into 2 equal parts along 'i'",
         lambda: fx.shard_map(abs, MESH, P("i"), P("i"))(fx.ones(3))),
        (fx.errors.ShapeError, r"a spec of 2 axes for a tensor of shape \(4,\)",
         lambda: fx.shard_map(abs, MESH, P("i", "j"), P())(fx.ones(4))),
        (fx.errors.TreeError, "specs are fx.P, or pytrees of them, got 'i'",
         lambda: fx.shard_map(abs, MESH, "i", P())),
        (fx.errors.TreeError, "is no prefix of",
         lambda: fx.shard_map(abs, MESH, (P(), P()), P())(fx.ones(4))),
        (fx.errors.ArgumentError, "mesh must be a fx.Mesh, got int",
         lambda: fx.shard_map(abs, 2, P(), P())),
        (fx.errors.ArgumentError, "lanes have no local parts",
         lambda: fx.shard_map(abs, MESH, P(), P(), local=True)),
        (fx.errors.ArgumentError, "need as many different names",
         lambda: fx.Mesh((2, 2), ("i",))),
        (fx.errors.ArgumentError, "sizes must be positive ints",
         lambda: fx.Mesh((2, 0), ("i", "j"))),
        (fx.errors.ArgumentError, "each one once", lambda: fx.Mesh([0, 0], ("i",))),
        (fx.errors.DistError, "takes rank 1, but the world has 1 rank; start 2",
         lambda: fx.Mesh((2,), ("i",))),
        (fx.errors.AxisError, "no running vmap has the axis name 'k'",
         lambda: fx.shard_map(lambda x: fx.psum(x, "k"), MESH, P(), P())(fx.ones(2))),
        (fx.errors.ShapeError, "must have a row for each of 2 lanes or ranks",
         lambda: inside(lambda x: fx.all_to_all(x, "i", 0, 0))),
        (fx.errors.ShapeError, "cannot be cut into 2 equal parts",
         lambda: inside(lambda x: fx.psum_scatter(x, "i", tiled=True))),
        (fx.errors.AxisError, "source 2 is none of the 2 lanes or ranks",
         lambda: inside(lambda x: fx.pbroadcast(x, "i", 2))),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(error, words, call):
    with pytest.raises(error, match=words):
        call()
