"""``python -m fx.testing.coverage [--write] [--lists]``: names of the peers, there or not."""

import argparse

from fx.testing.coverage.page import PAGE, page, summary
from fx.testing.coverage.rows import rows

parser = argparse.ArgumentParser(prog="python -m fx.testing.coverage")
parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
parser.add_argument("--lists", action="store_true", help="make the lists anew of the peers")
asked = parser.parse_args()
if asked.lists:
    from fx.testing.coverage.peers import write_lists

    write_lists()
print(summary(rows()))
if asked.write:
    PAGE.write_text(page(rows()))
else:
    for row in rows():
        for name, why in row.missing.items():
            print(f"{row.title}: {name}: {why}")
