"""Which names of the peers fx has: the lists, and what stands for each.

``python -m fx.testing.coverage`` prints a row a list, and each name that is missing with a word
why; ``--write`` writes ``fx/COVERAGE.md``; ``--lists`` makes ``names.txt`` of the peers that are
installed.
"""

from fx.testing.coverage.page import page, summary
from fx.testing.coverage.rows import LISTS, Row, rows

__all__ = ["LISTS", "Row", "page", "rows", "summary"]
