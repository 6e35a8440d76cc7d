"""``python -m fx.testing [--device name] [name ...]``: laws and words of primitives, all or some.

It prints what breaks in the grid of transform words. With ``--device`` it checks every law on that
device first: whoever writes a backend runs it.
"""

import argparse
import sys

from fx.testing import LAWS, LawBroken, all_primitives, check_law, grid, primitive
from fx.testing.case import on_device

parser = argparse.ArgumentParser(prog="python -m fx.testing")
parser.add_argument("names", nargs="*", help="primitives; all unless given")
parser.add_argument("--device", help="where the laws are checked")
parser.add_argument("--examples", type=int, default=3, help="samples a law")
asked = parser.parse_args()
chosen = [primitive(name) for name in asked.names]
errors = []
with on_device(asked.device or "cpu"):
    if asked.device:
        for one in chosen or all_primitives().values():
            for law in LAWS.values():
                try:
                    check_law(law, one, asked.examples)
                except LawBroken as error:
                    errors.append(error)
    holes = grid(chosen or None)
errors += [error for broken in holes.values() for error in broken.values()]
for error in errors:
    print(error)
sys.exit(1 if errors else 0)
