"""A plan as text: where what lies, what is sent and why, and what other choices would cost."""

from __future__ import annotations

from typing import Any

_MOST = 6  # messages, and inputs of one placement, that are named


def text(plan: Any) -> str:
    """The whole of it."""
    axes = ", ".join(f"{a}={n}" for a, n in zip(plan.axis_names, plan.sizes))
    lines = [
        f"plan for ({axes}): {plan.name}",
        f"  step {_time(plan.time)} = {_time(plan.computing)} computing + {_time(plan.sending)} "
        f"sending; {_bytes(plan.memory)} a rank",
        *_placed(plan),
        *_sent(plan),
        "  other choices",
    ]
    for name, other in plan.others.items():
        if other.wrong:
            lines.append(f"    {name}: {other.wrong}")
            continue
        worse = other.time / plan.time if plan.time else 1.0
        lines.append(
            f"    {name}: {_time(other.time)} ({worse:.2f} times), {_time(other.sending)} of it "
            f"sending; {_bytes(other.memory)} a rank"
        )
    return "\n".join(lines)


def _placed(plan: Any) -> list[str]:
    groups: dict[Any, list[str]] = {}
    for name, placements in plan.placements.items():
        groups.setdefault(placements, []).append(name)
    lines = ["  where inputs lie"]
    for placements, names in groups.items():
        told = ", ".join(map(str, placements))
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        lines.append(f"    {told}: {', '.join(names[:_MOST])}{more}")
    return lines


def _sent(plan: Any) -> list[str]:
    if not plan.messages:
        return ["  nothing is sent"]
    lines = [f"  what is sent: {len(plan.messages)} messages, the dearest"]
    for m in sorted(plan.messages, key=lambda m: -m.time)[:_MOST]:
        lines.append(
            f"    {_time(m.time)} {m.name} of {_bytes(m.nbytes)} along {m.axis}"
            + (f", for {m.line}" if m.line else "")
        )
    return lines


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
