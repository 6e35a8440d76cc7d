"""The laws that the rules of a primitive must keep, for the suite and for whoever adds one.

Adding a primitive, check it in one line::

    fx.testing.check_primitive(my_primitive, oracle=numpy_version)

It draws arguments from the primitive's sampler and raises ``LawBroken`` with the rule to look at,
such as ``tanh: vjp breaks <u, Jv> = <J'u, v>``. ``LAWS`` holds the laws one by one.
"""

from fx.testing.case import LawBroken, draw
from fx.testing.kernels import against_oracle
from fx.testing.law import LAWS, Law
from fx.testing.laws import all_primitives, check_law, check_primitive, primitive
from fx.testing.words import broken_words, grid, words

__all__ = [
    "LAWS", "Law", "LawBroken", "against_oracle", "all_primitives", "broken_words", "check_law",
    "check_primitive", "draw", "grid", "primitive", "words",
]  # fmt: skip
