"""How a weight gradient is cut into tasks and bands; ``weight_grad`` says what they do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from fx import limits
from fx.backends.cpu.llvm.conv.plan import Ints, Job


@dataclass(frozen=True, slots=True)
class GradCut:
    """Tasks: parts of the bands, times channel blocks, times parts of the source channels."""

    sums: int  # parts of the bands, each with a sum of its own
    parts: int  # of the source channels
    part: int  # source channels of a part; the last one may have fewer
    rows: int  # output rows of a band
    bands: int  # bands of a plane of outputs
    together: int  # samples of a band, more than one only where a band is a whole sample
    direct: bool  # the input is read where it is: nothing pads it
    plane: Ints  # sizes of a padded plane, or of the input's
    channel_step: int
    sample_step: int
    window: Ints
    dilation: Ints


@lru_cache(maxsize=256)
def grad_cut(job: Job, window: Ints, dilation: Ints, units: int, width: int, size: int) -> GradCut:
    """Choose the tasks; ``units`` blocks of ``width`` channels, elements of ``size`` bytes."""
    depth, high, long = job.out
    whole = job.groups * job.K * job.window * job.M * size
    samples = job.samples
    rows = high
    sums = min(-(-limits.CONV_GRAD_TASKS // units), max(1, limits.CONV_GRAD_PARTIAL // whole))
    sums = max(1, min(sums, samples * depth * high))
    parts = max(1, min(-(-limits.CONV_GRAD_TASKS // (units * sums)), job.K // 8))
    part = -(-job.K // parts)
    parts = -(-job.K // part)

    def plane(rows: int) -> Ints:
        high_ = (rows - 1) * job.step[1] + job.span[1]
        return (job.span[0], high_, (long - 1) * job.step[2] + job.span[2])

    # rows of taps are few, so that copying the input would cost as much as reading it
    direct = (
        not job.pads and job.window <= 3 and prod(job.source) * size % limits.CONV_GRAD_ALIAS != 0
    )

    def need(rows: int) -> int:
        planes = 0 if direct else part * prod(plane(rows))
        return (planes + rows * long * width) * size

    while rows > 1 and (
        need(rows) > limits.CONV_GRAD_BAND or samples * depth * -(-high // rows) < sums
    ):
        rows = -(-rows // 2)
    bands = -(-high // rows)
    together = 1
    if bands == 1 and depth == 1:
        wanted = -(-limits.CONV_GRAD_OUTPUTS // (high * long))
        fits = max(1, limits.CONV_GRAD_BAND // need(rows))
        together = max(1, min(wanted, fits, samples // sums))
    sizes = plane(rows)
    step = (-(-prod(sizes) * size // 64) | 1) * 64 // size
    sums = min(sums, -(-samples // together) * depth * bands)
    sample_step = part * step
    if direct:
        sizes, step = job.source, prod(job.source)
        sample_step = job.groups * job.K * step
    return GradCut(
        sums, parts, part, rows, bands, together, direct, sizes, step, sample_step, window,
        dilation,
    )  # fmt: skip


limits.on_change(grad_cut.cache_clear)
