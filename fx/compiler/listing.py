"""A schedule as text."""

from __future__ import annotations

from fx.compiler.step import PythonStep, Schedule, Step
from fx.graph.ir import Value


def text(schedule: Schedule) -> str:
    """One line a step: its number, name, reads, writes, tasks, cost and the user's lines.

    Values are named after the order in which the listing meets them: ``a0`` are arguments, ``c0``
    constants, ``v0`` what steps write.
    """
    names = {v: f"a{i}" for i, v in enumerate(schedule.graph.inputs)}

    def name(value: Value) -> str:
        root = schedule.root(value)
        if root not in names:
            kind = "c" if root.constant is not None else "v"
            names[root] = f"{kind}{sum(n[0] == kind for n in names.values())}"
        return f"{names[root]}:{value.spec!r}"

    lines = [f"schedule of {schedule.graph.name}: {len(schedule.steps)} steps"]
    for i, step in enumerate(schedule.steps):
        reads = ", ".join(map(name, step.reads))
        writes = ", ".join(map(name, step.writes))
        lines.append(f"{i:4}  {step.name}")
        lines.append(f"      {reads} -> {writes}")
        lines.append(f"      {_facts(step)}{'  # ' + ' '.join(step.lines) if step.lines else ''}")
    lines.append(f"returns {', '.join(map(name, schedule.graph.outputs))}")
    return "\n".join(lines)


def _facts(step: Step) -> str:
    if isinstance(step, PythonStep):
        return "in Python"
    cost = step.cost
    time = f"{cost:.0f} ns" if cost < 1e3 else f"{cost / 1e3:.1f} us"
    scratch = f", {step.scratch} bytes of scratch" if step.scratch else ""
    return f"{step.tasks} task{'s' if step.tasks > 1 else ''}, about {time}{scratch}"
