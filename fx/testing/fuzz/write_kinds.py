"""Tables of ``writes.py`` for complex numbers, bools and several dtypes at once."""

from __future__ import annotations

import random

import numpy as np

from fx.testing.fuzz.write_forms import Write
from fx.testing.fuzz.write_views import Array, Made, View

COMPLEX = ("1j", "2.0", "(0.5-1j)", "-2j")
SIGNS = {
    "f": ("+=", "-=", "*=", "/=", "**="), "i": ("+=", "-=", "*="), "b": ("|=", "&=", "^="),
    "c": ("+=", "-=", "*="),
}  # fmt: skip
# what does not fit the dtype of a target: torch refuses to add it in place
TOO_WIDE = {"i": ("0.5", "2.5"), "b": ("1", "0.5"), "f": ("1j",)}


def _conjugate(rng: random.Random, a: Array) -> Made:
    forms = [(".conj()", a), ("torch.conj({t})", a)]
    if a.ndim == 2:
        forms += [(".mH", a.T), (".H", a.T), (".adjoint()", a.T)]
    return rng.choice(forms)


def _part(rng: random.Random, a: Array) -> Made:
    pairs = "torch.view_as_real({t}.resolve_conj())"
    return rng.choice(((".real", a.real), (".imag", a.imag), (pairs, _pairs(a))))


def _pairs(a: Array) -> Array:
    """Real and imaginary parts; a layout of their own, as a view of conjugates is copied there."""
    return np.stack([a.real, a.imag], -1)


VIEWS = [View("more", _conjugate), View("more", _conjugate), View("more", _part)]
WRITES = [
    Write("{t}." + call, kinds="c") for call in (
        "zero_()", "fill_(2j)", "mul_(2)", "add_(1j)", "sub_({v})", "neg_()", "mul_({v})",
        "copy_(torch.ones_like({t}))", "conj_physical_()", "mul_(1j)", "add_({v}, alpha=0.5)",
        "copy_(torch.zeros_like({t}) + {v})", "square_().mul_(0.1)", "masked_fill_({mask}, 1j)",
    )
]  # fmt: skip
# copies that change the dtype
CASTS = {
    "f": "{t}.copy_({o})",
    "i": "{t}.copy_({o}.nan_to_num().clamp(-9, 9))",
    "b": "{t}.copy_({o})",
    "c": "{t}.copy_({o})",
}
