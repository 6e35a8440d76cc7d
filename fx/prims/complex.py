"""Complex numbers: the conjugate, the real and imaginary parts, and numbers of two parts.

Cotangents are paired without a conjugate, ``<u, v> = Re(sum(u * v))``, as everywhere in fx, save
where PyTorch's interface gives or takes them (``repaired``).
"""

from __future__ import annotations

from typing import Any

import fx.prims.factors as factors
from fx import tree
from fx.dtypes import COMPLEX, complex64, complex128, float32, float64, real_of
from fx.primitive import define
from fx.prims.compare import astype
from fx.prims.creation import constant_like
from fx.prims.families import (
    elementwise_batch,
    elementwise_spec,
    float_spec,
    same_dim_batch,
    spread,
    two_floats,
    unbroadcast,
)
from fx.prims.sampling import Sample
from fx.tensor import Tensor

conj = define(
    "conj", kind="elementwise", spec=float_spec("conj"),
    jvp=lambda primals, tangents: (conj(*primals), conj(*tangents)),
    vjp=lambda needs, x: lambda ct: (conj(ct),),
    sharding=factors.elementwise((0,)),
    batch=same_dim_batch(lambda: conj),
    sample=lambda d: Sample([d.floats(d.shape())]),
)  # fmt: skip


def _part_spec(x, *, turn):
    return float_spec("part")(x).with_(dtype=real_of(x.dtype))


_FACTORS = (1, -1j, -1, 1j)


def _part_vjp(needs, x, *, turn):
    dtype = x._dtype
    if dtype in COMPLEX:
        factor = constant_like(_FACTORS[turn], x)
        return lambda ct: (astype(ct, dtype=dtype) * factor,)
    return lambda ct: (part(ct, turn=-turn % 4),)


part = define(  # the real part of x * (-i)^turn: Re x, Im x, -Re x, -Im x
    "part", kind="elementwise", spec=_part_spec, torch_name="Real",
    jvp=lambda primals, tangents, *, turn: (
        part(*primals, turn=turn), part(*tangents, turn=turn)
    ),
    vjp=_part_vjp,
    sharding=factors.elementwise((0,)),
    batch=same_dim_batch(lambda: part),
    sample=lambda d: Sample([d.floats(d.shape())], {"turn": d.choice((0, 2))}),
)  # fmt: skip


_parts = elementwise_spec("complex", takes=frozenset({float32, float64}))


def _complex_spec(x, y):
    found = _parts(x, y)
    return found.with_(dtype=complex128 if found.dtype == float64 else complex64)


def _complex_jvp(primals, tangents):
    out = complex(*primals)
    x, y = [
        spread(constant_like(0, p) if t is None else t, out.shape)
        for p, t in zip(primals, tangents)
    ]
    return out, complex(x, y)


def _complex_vjp(needs, x, y):
    shapes, wanted = (x._shape, y._shape), [n is not None for n in needs]
    return lambda ct: tuple(
        [
            unbroadcast(part(ct, turn=turn), shape) if want else None
            for want, shape, turn in zip(
                wanted, shapes, (0, 3)
            )  # the pairing has Re(i ct) = -Im ct
        ]
    )


complex = define(  # x + i y, whatever x and y are: i * infinity has no real part here
    "complex", kind="elementwise", spec=_complex_spec,
    jvp=_complex_jvp,
    vjp=_complex_vjp,
    batch=elementwise_batch(lambda: complex),
    sharding=factors.elementwise((0, 1)),
    sample=two_floats,
)  # fmt: skip


def repaired(ct: Any) -> Any:
    """A cotangent in PyTorch's pairing, ``<u, v> = Re(sum(conj(u) * v))``, from fx's; and back."""
    return conj(ct) if ct is not None and ct.dtype.kind == "c" else ct


def repaired_tree(cts: Any) -> Any:
    """The same for each tensor of a tree."""
    return tree.map(lambda ct: repaired(ct) if isinstance(ct, Tensor) else ct, cts)


def conjugated(path: Any) -> bool:
    """Whether steps of views, pairs of a primitive and its parameters, conjugate what they see."""
    return sum(primitive is conj for primitive, _ in path) % 2 == 1
