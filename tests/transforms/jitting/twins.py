"""Results and state of an eager and of a jitted run, compared."""

import math
import random
from collections import deque

import numpy as np

import fx


def expect_equal_twins(want, got, where=""):
    """Containers of the same types and order, tensors close, everything else equal."""
    if isinstance(want, fx.Tensor):
        assert isinstance(got, fx.Tensor), (where, got)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), where
        a, b = got.detach().numpy(), want.detach().numpy()
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=where)
        return
    assert type(got) is type(want), (where, got, want)
    if isinstance(want, dict):
        assert list(got) == list(want), where
        for key in want:
            expect_equal_twins(want[key], got[key], f"{where}[{key!r}]")
    elif isinstance(want, list | tuple | deque):
        assert len(got) == len(want), where
        for i, (a, b) in enumerate(zip(want, got)):
            expect_equal_twins(a, b, f"{where}[{i}]")
    elif isinstance(want, np.ndarray) and not want.dtype.hasobject:
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5, err_msg=where)
    elif isinstance(want, float):
        same = math.isclose(want, got, rel_tol=2e-4, abs_tol=2e-5) or repr(want) == repr(got)
        assert same, (where, got, want)
    elif hasattr(want, "__dict__") and not isinstance(want, type):
        expect_equal_twins(vars(want), vars(got), where)
    else:
        assert np.array_equal(got, want) if isinstance(want, np.ndarray) else got == want, where


class Twin:
    """A program that defines ``f``; the global generators of Python and NumPy are its own in it."""

    def __init__(self, text, wrap=lambda f: f):
        self.names = {"__name__": "a_module"}
        exec(text, self.names)
        self.f = wrap(self.names["f"])
        self.states = random.Random(7).getstate(), np.random.RandomState(7).get_state()

    def __call__(self, *args):
        random.setstate(self.states[0])
        np.random.set_state(self.states[1])
        try:
            return self.f(*args)
        except (LookupError, ArithmeticError, ValueError) as error:
            return type(error), str(error)
        finally:
            self.states = random.getstate(), np.random.get_state()

    def change(self, statement):
        """Let something come in between two calls."""
        exec(statement, self.names)
