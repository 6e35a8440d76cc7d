"""``torch.utils.benchmark``: how long a statement takes."""

from __future__ import annotations

import statistics
import timeit
from typing import Any


class Measurement:
    """Several times of one statement.

    Args:
        number_per_run: how often it ran in each.
        raw_times: seconds, one for each run.
        label, sub_label, description, num_threads, env: what the timer was told.
    """

    def __init__(
        self, number_per_run: int, raw_times: list[float], label: str | None = None,
        sub_label: str | None = None, description: str | None = None, num_threads: int = 1,
        env: str | None = None,
    ) -> None:  # fmt: skip
        self.number_per_run, self.raw_times = number_per_run, raw_times
        self.label, self.sub_label, self.description = label, sub_label, description
        self.num_threads, self.env = num_threads, env

    @property
    def times(self) -> list[float]:
        """Seconds of one call, a number a run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def mean(self) -> float:
        """The mean of ``times``."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """The median of ``times``."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The distance of the quartiles of ``times``."""
        if len(self.times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    def __repr__(self) -> str:
        units = (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9))
        unit, scale = next((u for u in units if self.median * u[1] >= 1), units[-1])
        value = self.median * scale
        name = ": ".join(filter(None, (self.label, self.sub_label, self.description))) or "stmt"
        return (
            f"<torch.utils.benchmark.Measurement>\n{name}\n  Median: {value:.2f} {unit}\n"
            f"  {len(self.times)} measurement{'s' * (len(self.times) != 1)}, "
            f"{self.number_per_run} runs per measurement, {self.num_threads} threads"
        )


class Timer:
    """Times a statement, as ``timeit.Timer`` with PyTorch's ways of repeating it.

    Raises:
        ValueError: for a ``language`` other than Python, or a ``global_setup``, which is C++'s.

    Example:
        >>> import fx.torch as torch
        >>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": torch.ones(3)})
        >>> timer.timeit(10).number_per_run
        10
    """

    def __init__(
        self, stmt: str = "pass", setup: str = "pass", global_setup: str = "", timer: Any = None,
        globals: dict[str, Any] | None = None, label: str | None = None,
        sub_label: str | None = None, description: str | None = None, env: str | None = None,
        num_threads: int = 1, language: Any = "python",
    ) -> None:  # fmt: skip
        if language not in ("py", "python"):
            raise ValueError(f"Timer: fx times Python, not language {language!r}")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got {global_setup!r}; move the code to setup"
            )
        clock = timeit.default_timer if timer is None else timer
        self._timer = timeit.Timer(stmt, setup, clock, globals)
        self._told = (label, sub_label, description, num_threads, env)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One run of ``number`` calls, after some that are not counted."""
        self._timer.timeit(max(number // 100, 2))
        return Measurement(number, [self._timer.timeit(number)], *self._told)

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Runs of so many calls that a clock can time them, for ``min_run_time`` seconds."""
        number, taken = 1, self._timer.timeit(1)
        while taken < min(min_run_time / 1000, 1e-3):
            number *= 10
            taken = self._timer.timeit(number)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._timer.timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, *self._told)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:  # fmt: skip
        """The same, until the quartiles lie within ``threshold`` of the median."""
        found = self.blocked_autorange(callback, min_run_time)
        while found.iqr > threshold * found.median and sum(found.raw_times) < max_run_time:
            found.raw_times.append(self._timer.timeit(found.number_per_run))
        return found


__all__ = ["Measurement", "Timer"]
