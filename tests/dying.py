"""For tests of what dies: collections that are waited for, and all that still holds what lives."""

import gc
import time
import types

PATIENCE = 2.0  # seconds; another thread may be collecting, or hold what it is about to drop
COLLECTIONS = 6  # at least: what dies may drop what only the next one finds, and one may take long
DEPTH, WIDTH = 12, 60  # steps away from what lives, and holders that are told of


def assert_dead(references):
    """Fail where one of these weak references still leads to an object, and say what holds it."""
    until, rounds = time.monotonic() + PATIENCE, 0
    while True:
        gc.collect()  # where another thread collects just now, it returns at once
        rounds += 1
        alive = [x for x in [reference() for reference in references] if x is not None]
        if not alive:
            return
        if time.monotonic() > until and rounds >= COLLECTIONS:
            told = [line for x in alive for line in _holders(x, alive)]
            raise AssertionError("\n".join(told))
        del alive
        time.sleep(0.01)


def _holders(x, own):
    """Lines that tell what holds an object, and what holds that: all of it, the nearest first."""
    numbers, lines, level = {id(x): 0}, [f"0 alive: {_told(x)}"], [x]
    kept = [own, numbers, lines]  # and what this function makes to find it out
    for _ in range(DEPTH):
        above = []
        kept += [level, above]
        for held in level:
            holders = gc.get_referrers(held)
            kept.append(holders)
            ours = {id(y) for y in kept} | {id(kept)}
            for holder in holders:
                if id(holder) in ours or _is_ours(holder):
                    continue
                if len(numbers) > WIDTH:
                    return [*lines, "and more"]
                number = numbers.get(id(holder))
                if number is None:
                    number = numbers[id(holder)] = len(numbers)
                    above.append(holder)
                    lines.append(f"{number} holds {numbers[id(held)]}: {_told(holder)}")
                else:
                    lines.append(f"{number} holds {numbers[id(held)]} too")
        level = [y for y in above if not isinstance(y, types.FrameType | types.ModuleType)]
        if not level:
            break
    return lines


def _is_ours(x):
    return type(x) is types.FrameType and x.f_code in _OWN


def _told(x):
    if isinstance(x, types.FrameType):
        return f"a frame of {x.f_code.co_qualname}, line {x.f_lineno} of {x.f_code.co_filename}"
    if isinstance(x, dict):
        return f"a dict of {sorted(map(str, x))[:12]}"
    return f"{type(x).__module__}.{type(x).__qualname__} {repr(x)[:120]}"


_OWN = frozenset((assert_dead.__code__, _holders.__code__))
