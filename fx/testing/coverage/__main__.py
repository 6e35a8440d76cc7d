"""``python -m fx.testing.coverage [--write] [--lists]``: names of the peers, there or not."""

import argparse

from fx.testing.coverage.page import PAGE, page, summary, transforms
from fx.testing.coverage.rows import rows
from fx.testing.coverage.states import probe, read_states, write_states

parser = argparse.ArgumentParser(prog="python -m fx.testing.coverage")
parser.add_argument("--write", action="store_true", help=f"probe, and write {PAGE.name}")
parser.add_argument("--lists", action="store_true", help="make the lists anew of the peers")
asked = parser.parse_args()
if asked.lists:
    from fx.testing.coverage.peers import write_lists

    write_lists()
print(summary(rows()))
if asked.write:
    write_states(probe(rows()))
    PAGE.write_text(page(rows(), read_states()))
else:
    print(transforms(read_states()))
    for row in rows():
        for name, why in row.missing.items():
            print(f"{row.title}: {name}: {why}")
