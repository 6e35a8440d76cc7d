"""Kernels for other machines, from the same emitters: what they hold, as assembly."""

import re

import pytest

import fx
from fx.backends.cpu.llvm import engine
from fx.backends.cpu.llvm.machines import described, emitting_for, host, target
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule

HASWELL = described("x86_64-unknown-linux-gnu", "haswell", "+avx2,+fma,+f16c")
NEOVERSE = described("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon,+fullfp16")
PROGRAMS = {
    "product": (lambda x, y: x @ y, ((40, 33), (33, 50))),
    "convolution": (fx.nn.functional.conv2d, ((2, 8, 12, 12), (16, 8, 3, 3))),
    "loops": (lambda x: fx.softmax(fx.tanh(x), 1), ((30, 70),)),
    "pooling": (lambda x: fx.nn.functional.max_pool2d(x, 2), ((2, 3, 13, 13),)),
    "extremes": (lambda x: fx.argmax(x, axis=1), ((30, 700),)),
}


def assembly(name, machine):
    """The assembly of the kernels of a program."""
    function, shapes = PROGRAMS[name]
    graph = fx.make_graph(function)(*[fx.zeros(shape) for shape in shapes])
    with emitting_for(machine):
        texts = []
        for i, step in enumerate(schedule(graph, this_cpu()).steps):
            module = engine.new_module()
            step.emit(module, f"kernel{i}")
            texts.append(engine.assembly(str(module)))
    return "\n".join(texts)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_for_avx2_hold_its_vectors_and_no_wider_ones(name):
    found = assembly(name, HASWELL)
    assert "%ymm" in found
    assert not re.search(r"%zmm|%k[1-7]|%ymm(1[6-9]|[23][0-9])", found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_for_arm_are_its_instructions(name):
    found = assembly(name, NEOVERSE)
    assert re.search(r"\bv[0-9]+\.4s\b", found)
    assert "mm0" not in found


def test_other_machines_end_with_their_block():
    with emitting_for(NEOVERSE):
        assert target() is NEOVERSE
        assert NEOVERSE.triple in engine.head()
    assert target() is host()
    assert NEOVERSE.vector_bytes == 16 and NEOVERSE.registers == 32
    assert HASWELL.vector_bytes == 32 and HASWELL.registers == 16
