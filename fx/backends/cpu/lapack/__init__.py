"""Factorisations and solves of stacks of matrices, native and without Python between two matrices.

``door.py`` is where LAPACK comes in; ``irregular/lapack.py`` holds the loops that call it, in eager
calls and in compiled graphs alike; ``plans.py`` says, once for both, what a kernel is called with.
"""
