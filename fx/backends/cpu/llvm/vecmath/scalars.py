"""Special functions by SciPy's, one number at a time: its Cython module hands out their addresses.

They take and give float64. A name there has several versions, ``__pyx_fuse_1j0`` of ``j0``, and
which number means which depends on SciPy's release: the one of float64 is known by its signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from llvmlite import ir

from fx.backends.cpu._bessel_names import scipys_name
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.ir import f64, i32, suffix
from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.outlined import lane_by_lane

_MODULE, _TABLE = "scipy.special.cython_special", "__pyx_capi__"
_NAMES = {  # primitive: SciPy's name, arguments
    "gammainc": ("gammainc", 2),
    "gammaincc": ("gammaincc", 2),
    "betainc": ("betainc", 3),
}
NAMES = (*_NAMES, "bessel")


def _function(b: Any, name: str, count: int) -> Any:
    """The declaration of a function of ``count`` numbers."""
    full = f"fx.scipy.{name}"
    externals.register(full, ir.FunctionType(f64, [f64] * count + [i32]), _finder(name, count))
    return externals.declare(b.module, full)


def _finder(name: str, count: int) -> Callable[[], int]:
    def find() -> int:
        from importlib import import_module

        kinds = "".join(["double, "] * count)
        for key, capsule in getattr(import_module(_MODULE), _TABLE).items():
            ours = re.fullmatch(rf"(__pyx_fuse_[\d_]+)?{name}", key)
            if ours and f'"double ({kinds}int __pyx_skip_dispatch)"' in repr(capsule):
                return externals.of_capsules(_MODULE, _TABLE, key)()
        raise ImportError(f"SciPy has no {name} of {count} numbers of float64 by address")

    return find


def emitter(name: str) -> Callable[..., Num]:
    """``f(params, *terms)``: a special function of numbers of any width."""

    def emit(params: Mapping[str, Any], *terms: Num) -> Num:
        if name == "bessel":
            scipys, first = scipys_name(params["kind"], params["order"])
            label = f"{scipys}.{first}"
        else:
            scipys, first = _NAMES[name][0], None
            label = scipys

        def formula(*xs: Num) -> tuple[Num]:
            b = xs[0].b
            given = [x.to(f64).v for x in xs]
            given = given if first is None else [ir.Constant(f64, float(first)), *given]
            function = _function(b, scipys, len(given))
            return (Num(b, b.call(function, [*given, i32(0)])).to(xs[0].type),)

        (out,) = lane_by_lane(f"{label}.{suffix(terms[0].type)}", formula, *terms)
        return out

    return emit
