"""``python -m fx.testing [name ...]`` prints the grid of transform words and what breaks in it."""

import sys

from fx.testing import grid, primitive

holes = grid([primitive(name) for name in sys.argv[1:]] or None)
for broken in holes.values():
    for error in broken.values():
        print(error)
sys.exit(1 if holes else 0)
