"""Idioms of public code give under fx.torch what they give under torch."""

import copy
import io
import math
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch
from tests.torch.idioms import SNIPPETS
from tests.torch.test_functions import compare, plain

PARAGRAPHS = {
    part.partition("\n")[0]: part.partition("\n")[2]
    for part in re.split(r"^# ", SNIPPETS, flags=re.MULTILINE)[1:]
}


def run(code, library):
    def fill(model):
        rng = np.random.default_rng(7)
        model.double()
        with library.no_grad():
            for p in model.parameters():
                p.copy_(library.from_numpy(rng.standard_normal(tuple(p.shape))))
        return model

    names = {
        "torch": library, "nn": library.nn, "F": library.nn.functional, "np": np, "math": math,
        "copy": copy, "io": io, "fill": fill, "a": np.random.default_rng(5).standard_normal((3, 4)),
    }  # fmt: skip
    exec(code, names)
    return plain(names["out"])


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_same_as_torch(name):
    expected = run(PARAGRAPHS[name], torch)
    compare(run(PARAGRAPHS[name], fx.torch), expected, name)


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("x[:, 0::2] = fx.sin(y)", r"x = x.at\[:, 0::2\].set\(v\)"),
        ("x[x < 0] = -float('inf')", r"\.at\[.*\]\.set\(v\)"),
        ("x.zero_()", "x = fx.zeros_like"),
        ("x.scatter_(1, fx.tensor([[1]]), 1.0)", r"x = x.scatter\("),
        ("fx.empty(3).normal_()", "random"),
        ("x.data.clamp_(-1, 1)", r"x = x.clamp\("),
    ],
)
def test_a_functional_module_does_not_write(code, line):
    names = {"fx": fx, "x": fx.ones((3, 4)), "y": fx.ones((3, 2))}
    with pytest.raises(TypeError, match=line):
        exec(code, names)
