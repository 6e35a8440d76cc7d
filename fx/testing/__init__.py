"""The laws that the rules of a primitive must keep, for the suite and for whoever adds one."""

from fx.testing.case import LawBroken, draw
