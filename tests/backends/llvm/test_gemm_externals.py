"""External functions: found when they are needed, declared once a module."""

from __future__ import annotations

import ctypes
import math

import pytest
from llvmlite import ir

from fx.backends.cpu.llvm import externals


def test_functions_of_the_c_library():
    call = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(externals.address("fx.tgamma"))
    assert call(5.5) == pytest.approx(math.gamma(5.5), rel=1e-14)


def test_capsules_of_scipy():
    pytest.importorskip("scipy")
    find = externals.of_capsules("scipy.linalg.cython_blas", "__pyx_capi__", "ddot")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_void_p] * 5)
    n, one = ctypes.c_int(3), ctypes.c_int(1)
    x = (ctypes.c_double * 3)(1, 2, 3)
    at = ctypes.addressof
    assert kind(find())(at(n), at(x), at(one), at(x), at(one)) == 14


def test_an_address_is_looked_for_once_and_only_when_needed(monkeypatch):
    monkeypatch.setattr(externals, "_entries", {})
    monkeypatch.setattr(externals, "_addresses", {})
    calls = []
    kind = ir.FunctionType(ir.VoidType(), [])
    externals.register("fx.test", kind, lambda: calls.append(1) or 42)
    module = ir.Module()
    declared = externals.declare(module, "fx.test")
    assert declared is externals.declare(module, "fx.test")
    assert externals.names(module) == ["fx.test"] and not calls
    assert externals.address("fx.test") == externals.address("fx.test") == 42
    assert calls == [1]
    assert externals.address("fx.unknown") == 0


def test_names_are_refused_that_could_meet_others():
    kind = ir.FunctionType(ir.VoidType(), [])
    with pytest.raises(ValueError, match=r"'memcpy': names start with 'fx\.'"):
        externals.register("memcpy", kind, lambda: 0)
    with pytest.raises(ValueError, match=r"'fx\.tgamma' is known as double \(double\)"):
        externals.register("fx.tgamma", kind, lambda: 0)
