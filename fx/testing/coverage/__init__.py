"""Which names of the peers fx has: the lists, what stands for each, and which transforms hold.

``python -m fx.testing.coverage`` prints a row a list, and each name that is missing with a word
why; ``--write`` calls each name under each transform and writes ``fx/COVERAGE.md``; ``--lists``
makes ``names.txt`` of the peers that are installed.
"""

from fx.testing.coverage.page import page, summary
from fx.testing.coverage.rows import LISTS, Row, rows
from fx.testing.coverage.states import read_states

__all__ = ["LISTS", "Row", "page", "read_states", "rows", "summary"]
