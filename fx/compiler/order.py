"""Order: in which order kernels run, while they are still being put together."""

from __future__ import annotations

from typing import Any

from fx import limits

END: Any = object()  # stands for the caller, who reads the outputs


class Order:
    """Units in the reverse order of execution; each knows its ``place``, and who is ``after`` it.

    A unit that is added runs before all others. Where another one has to run earlier than it does,
    as few as possible change their places.
    """

    def __init__(self) -> None:
        self.units: list[Any] = []

    def append(self, unit: Any) -> None:
        """Add a unit, which runs before all others."""
        unit.place = len(self.units)
        self.units.append(unit)

    def edge(self, unit: Any, user: Any) -> None:
        """``user`` reads what ``unit`` writes."""
        if user is not END and user is not unit:
            unit.after.add(user)
            user.before.add(unit)

    def before(self, users: list[Any], group: Any) -> bool:
        """Whether ``group`` can run before all other ``users``; if so, it does from now on."""
        late = [u for u in users if u is not END and u is not group and u.place > group.place]
        if not late:
            return True
        seen: set[Any] = set(late)
        todo = list(late)
        while todo:
            unit = todo.pop()
            for other in unit.after:
                if other is group:
                    return False
                if other.place > group.place and other not in seen:
                    seen.add(other)
                    todo.append(other)
            if len(seen) > limits.ORDER_SEARCH:
                return False
        low, high = group.place, max(u.place for u in seen)
        if high - low > 4 * limits.ORDER_SEARCH:
            return False
        window = self.units[low : high + 1]
        moved = [u for u in window if u in seen] + [u for u in window if u not in seen]
        for i, u in enumerate(moved, low):
            self.units[i] = u
            u.place = i
        return True
