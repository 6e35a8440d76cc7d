"""Runs one script under torch and under fx: same weights, same random numbers, recorded losses.

A script is taken as it is but for its import lines. What it draws (noise, dropout masks, samples,
the order of batches) comes from one NumPy stream that both libraries share, because their own
generators differ. The default dtype is float64: then rounding cannot hide a difference.
"""

import contextlib
import io
import random
import re
import sys
import types
from pathlib import Path

import numpy as np
import torch

import fx
import fx.torch

HERE = Path(__file__).parent


def rewrite(source):
    """The source with ``torch`` in its import lines replaced by ``fx.torch``."""
    rules = (
        (r"^(\s*)import torch$", r"\1import fx.torch as torch"),
        (r"^(\s*)import torch((?:\.\w+)*) as ", r"\1import fx.torch\2 as "),
        (r"^(\s*)import torch((?:\.\w+)+)$", r"\1import fx.torch as torch, fx.torch\2"),
        (r"^(\s*)from torch\b", r"\1from fx.torch"),
    )
    for pattern, by in rules:
        source = re.sub(pattern, by, source, flags=re.MULTILINE)
    return source


def load(name, library):
    """The script as a module of ``"torch"`` or ``"fx"``."""
    source = (HERE / f"{name}.py").read_text()
    module = types.ModuleType(f"{name}_under_{library}")
    module.__file__ = str(HERE / f"{name}.py")
    sys.modules[module.__name__] = module
    code = rewrite(source) if library == "fx" else source
    exec(compile(code, module.__file__, "exec"), module.__dict__)
    return module


# one stream of random numbers for both ----------------------------------------------------------


def _size(args, options):
    size = options.get("size", args)
    return tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)


class Draws:
    """The random functions of a library, drawn from NumPy."""

    def __init__(self, lib, seed):
        self.lib, self.rng = lib, np.random.default_rng(seed)

    def tensor(self, array, like=None):
        made = self.lib.from_numpy(np.ascontiguousarray(array))
        return made.to(self.lib.get_default_dtype() if like is None else like)

    def randn(self, *size, **options):
        made = self.tensor(self.rng.standard_normal(_size(size, options)))
        return made.requires_grad_() if options.get("requires_grad") else made

    def rand(self, *size, **options):
        return self.tensor(self.rng.random(_size(size, options)))

    def randn_like(self, x, **options):
        return self.tensor(self.rng.standard_normal(tuple(x.shape)), x.dtype)

    def rand_like(self, x, **options):
        return self.tensor(self.rng.random(tuple(x.shape)), x.dtype)

    def randint(self, low, high, size, **options):
        return self.lib.from_numpy(self.rng.integers(low, high, size))

    def randperm(self, n, **options):
        return self.lib.from_numpy(self.rng.permutation(n))

    def normal_(self, tensor, mean=0.0, std=1.0, **options):
        with self.lib.no_grad():
            tensor.copy_(self.tensor(self.rng.normal(mean, std, tuple(tensor.shape)), tensor.dtype))
        return tensor

    def multinomial(self, probabilities, num_samples, replacement=False, **options):
        rows = probabilities.detach().numpy().astype("float64")
        picked = [
            self.rng.choice(len(row), num_samples, replacement, row / row.sum()) for row in rows
        ]
        return self.lib.from_numpy(np.stack(picked))

    def dropout(self, input, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return input
        mask = self.rng.random(tuple(input.shape)) >= p
        return input * self.tensor(mask / (1 - p), input.dtype)

    def sampler(self):
        rng = self.rng

        def __iter__(self):
            return iter(rng.permutation(len(self.data_source)).tolist())

        return __iter__


@contextlib.contextmanager
def shared_draws(monkeypatch, lib, seed=0):
    """Both libraries draw the same numbers in the same order."""
    draws = Draws(lib, seed)
    with monkeypatch.context() as patch:
        for name in [
            "randn",
            "rand",
            "randn_like",
            "rand_like",
            "randint",
            "randperm",
            "multinomial",
        ]:
            patch.setattr(lib, name, getattr(draws, name))
        patch.setattr(lib.nn.init, "normal_", draws.normal_)
        patch.setattr(lib.nn.functional, "dropout", draws.dropout)
        patch.setattr(lib.utils.data.RandomSampler, "__iter__", draws.sampler())
        yield


@contextlib.contextmanager
def default_dtype(lib, name):
    """Another default dtype for a while."""
    before = lib.get_default_dtype()
    lib.set_default_dtype(getattr(lib, name))
    try:
        yield
    finally:
        lib.set_default_dtype(before)


# running ----------------------------------------------------------------------------------------

LIBRARIES = {"torch": torch, "fx": fx.torch}


def step_of(module):
    """The name of what ``fx.jit`` is put on in a script."""
    return "train_step" if hasattr(module, "train_step") else "step"


def counted(compiled):
    """A jitted function, and a list of how many programs it had after each call."""
    programs = []

    def function(*args):
        out = compiled(*args)
        programs.append(compiled.cache_size())
        return out

    return function, programs


def run(name, library, arguments, monkeypatch, dtype="float64", jit=False, own_draws=False):
    """What ``main`` of a script gives, and what it printed.

    Args:
        jit: put ``fx.jit`` on the script's ``train_step``, or its ``step`` if it does not train.
        own_draws: leave the library's own generator in place.
    """
    lib = LIBRARIES[library]
    printed = io.StringIO()
    random.seed(0)
    np.random.seed(0)
    with contextlib.ExitStack() as stack:
        stack.enter_context(default_dtype(lib, dtype))
        if not own_draws:
            stack.enter_context(shared_draws(monkeypatch, lib))
        stack.enter_context(contextlib.redirect_stdout(printed))
        module = load(name, library)
        if jit:
            step = step_of(module)
            jitted, programs = counted(fx.jit(getattr(module, step)))
            setattr(module, step, jitted)
        result = module.main([str(a) for a in arguments])
        if jit:
            result["programs"] = max(programs)
    return result, printed.getvalue()


def numbers(value):
    """A result as NumPy arrays, whichever library made it."""
    if isinstance(value, dict):
        return {key: numbers(v) for key, v in value.items()}
    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def leaves(value, path=""):
    """A saved object as a flat dict of numbers by path; what is no number stands as its text."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif hasattr(value, "detach") or isinstance(value, int | float):
        return {path: numbers(value)}
    else:
        return {f"{path}: {value}": 0}
    out = {}
    for key, v in items:
        out |= leaves(v, f"{path}/{key}")
    return out
