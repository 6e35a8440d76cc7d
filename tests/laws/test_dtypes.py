"""A kernel takes the floating dtypes that its spec takes: eager calls as compiled ones."""

import random

import numpy as np
import pytest

import fx
from fx.dtypes import as_dtype
from fx.testing import all_primitives
from fx.testing.case import draw

DTYPES = ("float16", "bfloat16", "float32", "float64")
PRIMITIVES = {
    name: primitive
    for name, primitive in all_primitives().items()
    if not primitive.effectful and not primitive.anywhere
}
SAMPLES = {name: draw(primitive, random.Random(0)) for name, primitive in PRIMITIVES.items()}
FLOATING = [n for n, s in SAMPLES.items() if any(np.asarray(a).dtype.kind == "f" for a in s.args)]


def outcome(call):
    """Whether a call is taken, and the dtypes of what it gives; or the kind of its error."""
    try:
        out = call()
    except (fx.errors.FxError, TypeError, ValueError) as error:
        return type(error).__name__
    return [x.dtype.name for x in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FLOATING)
def test_eager_and_spec_take_the_same(name):
    primitive, wrong = PRIMITIVES[name], []
    sample = SAMPLES[name]
    for dtype in DTYPES:
        kind = as_dtype(dtype)
        args = [
            fx.from_numpy(a).astype(kind) if a.dtype.kind == "f" else fx.from_numpy(a)
            for a in map(np.asarray, sample.args)
        ]
        told = outcome(lambda args=args: primitive.spec(*[x.spec for x in args], **sample.params))
        found = outcome(lambda args=args: primitive(*args, **sample.params))
        if isinstance(told, str) != isinstance(found, str) or (
            isinstance(told, list) and told != found
        ):
            wrong.append(f"{dtype}: the spec gives {told}, eager {found}")
    assert not wrong, "\n".join(wrong)
