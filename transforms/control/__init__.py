"""Control flow: ``cond``, ``switch``, ``while_loop``, ``fori_loop``, ``scan`` and what follows."""

from fx.transforms.control.associative import associative_scan
from fx.transforms.control.conditional import cond, switch
from fx.transforms.control.looping import fori_loop, while_loop
from fx.transforms.control.scanning import map, scan

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
