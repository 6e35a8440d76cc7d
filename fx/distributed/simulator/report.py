"""What a simulation found, and when to write checkpoints."""

from __future__ import annotations

from math import exp, inf, sqrt

from fx.slotted import slotted


@slotted(frozen=True)
class Report:
    """One training step of all ranks.

    Attributes:
        step_time: seconds, of the slowest rank.
        compute: seconds of it in which that rank computes.
        communication: seconds in which it waits for messages of sums and parameters.
        bubble: seconds in which it waits for other stages.
        straggling: seconds by which the slowest of the ranks is later than an average one.
        memory: bytes of the fullest rank.
        parts: those bytes by what they are.
        fits: whether a device has as many.
        ranks: how many compute.
        efficiency: the time of one device for the work of all, over the time that all spend.
        mtbf: seconds between two failures of the job.
        checkpoint_time: seconds that writing one takes.
        checkpoint_interval: seconds between two that lose least; infinite without failures.
        goodput: the part of the time that is left for steps that count.
    """

    step_time: float
    compute: float
    communication: float
    bubble: float
    straggling: float
    memory: float
    parts: dict[str, float]
    fits: bool
    ranks: int
    efficiency: float
    mtbf: float
    checkpoint_time: float
    checkpoint_interval: float
    goodput: float

    def __str__(self) -> str:
        share = lambda t: f"{100 * t / self.step_time:.0f} %"
        waits = ("communication", "bubble", "straggling")
        lost = ", ".join([f"{name} {share(getattr(self, name))}" for name in waits])
        parts = ", ".join([f"{name} {nbytes / 2**30:.2f}" for name, nbytes in self.parts.items()])
        lines = [
            f"step        {_time(self.step_time)} on {self.ranks} ranks: compute "
            f"{share(self.compute)}, {lost}",
            f"memory      {self.memory / 2**30:.2f} GiB a rank ({parts})"
            + ("" if self.fits else ": more than there is"),
            f"efficiency  {100 * self.efficiency:.0f} %",
        ]
        if self.checkpoint_interval < inf:
            lines.append(
                f"failures    one in {_time(self.mtbf)}; a checkpoint "
                f"({_time(self.checkpoint_time)}) every {_time(self.checkpoint_interval)} leaves "
                f"{100 * self.goodput:.1f} % of the time"
            )
        return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def interval(checkpoint: float, mtbf: float) -> float:
    """Seconds between checkpoints that lose least time, where failures are a Poisson process.

    Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
    dumps", Future Generation Computer Systems 22 (2006), equation 37.
    """
    if mtbf == inf:
        return inf
    if checkpoint >= 2 * mtbf:
        return mtbf
    x = sqrt(checkpoint / (2 * mtbf))
    return sqrt(2 * checkpoint * mtbf) * (1 + x / 3 + x * x / 9) - checkpoint


def goodput(every: float, checkpoint: float, restart: float, mtbf: float) -> float:
    """The part of the time that is spent on steps which are not lost (equation 13 there)."""
    if mtbf == inf:
        return 1.0
    spent = mtbf * exp(restart / mtbf) * (exp((every + checkpoint) / mtbf) - 1)
    return every / spent
