"""Algorithms for one small real matrix, written with vectors in place of numbers.

The elements in one place of a vector's worth of matrices are a vector (``memory.py``), so that a
step is one of all of them. What a matrix's result is does not depend on its neighbours.
"""
