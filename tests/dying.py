"""For tests of what dies: a collection that is waited for, and what still holds what lives."""

import gc
import time
import types

PATIENCE = 2.0  # seconds; another thread may be collecting, or hold what it is about to drop
DEPTH = 6


def assert_dead(references):
    """Fail where one of these weak references still leads to an object, and say what holds it."""
    until = time.monotonic() + PATIENCE
    while True:
        gc.collect()  # where another thread collects just now, it returns at once
        alive = [x for x in [reference() for reference in references] if x is not None]
        if not alive:
            return
        if time.monotonic() > until:
            chains = [_chain(x, alive) for x in alive]
            raise AssertionError("\n".join("\n".join(lines) for lines in chains))
        del alive
        time.sleep(0.01)


def _chain(x, own):
    """Lines that lead from an object to what holds it, and on, up to a frame or a module."""
    lines, seen, path = [f"alive: {_told(x)}"], {id(own)}, [x]
    seen |= {id(seen), id(path), id(lines)}
    for _ in range(DEPTH):
        holders = [h for h in gc.get_referrers(path[-1]) if id(h) not in seen and not _is_ours(h)]
        seen |= {id(holders), *map(id, holders)}
        if not holders:
            lines.append("  held by nothing that the collector knows: a thread, or code in C")
            break
        lines += [f"  held by {_told(h)}" for h in holders]
        path.append(holders[0])
        if isinstance(holders[0], types.FrameType | types.ModuleType):
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


_OWN = frozenset((assert_dead.__code__, _chain.__code__))
