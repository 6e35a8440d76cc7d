"""Elementwise primitives as LLVM IR: arithmetic, casts and transcendental functions.

``table.EMIT`` has an emitter for each primitive; the other modules hold the formulas, each a
function of terms (``algebra``) that works on scalars and on vectors of any length.
"""
