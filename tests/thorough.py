"""The thorough profile, ``FX_HYPOTHESIS=thorough``: every law on everything, in about an hour.

Without it the laws are the same, and what costs most meets fewer cases: each place says which.
"""

import os

THOROUGH = os.environ.get("FX_HYPOTHESIS") == "thorough"


def pairs(first, second, share):
    """Pairs of two lists, in turn one of so many: each of both meets several; thorough, all."""
    return [
        (a, b)
        for i, a in enumerate(first)
        for j, b in enumerate(second)
        if THOROUGH or (i + j) % share == 0
    ]


def of(cases, count):
    """The first ``count`` of so many cases; all of them when the profile is thorough."""
    return cases if THOROUGH else count
