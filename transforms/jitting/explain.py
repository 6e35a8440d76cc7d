"""Why a jitted function was compiled again, and what it was compiled to, as data."""

from __future__ import annotations

from typing import Any


def reason_of(jitted: Any, last: Any, signature: Any) -> str:
    """Why a program is made for a call, ``last`` being the newest for arguments of its kind."""
    if last is None:
        return "first call" if not jitted.programs else "arguments of another kind"
    return last.guards.why(jitted.function, signature.objects) or "something changed"
