"""The thorough profile, ``FX_HYPOTHESIS=thorough``: every law on everything, in about an hour.

Without it the laws are the same, and what costs most meets fewer cases: each place says which.
"""

import os

THOROUGH = os.environ.get("FX_HYPOTHESIS") == "thorough"


def of(cases, count):
    """The first ``count`` of so many cases; all of them when the profile is thorough."""
    return cases if THOROUGH else count
