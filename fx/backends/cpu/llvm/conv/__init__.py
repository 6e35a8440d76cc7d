"""Convolution and pooling as native steps.

``STEPS[name](node)`` gives the steps of a node of that primitive, or None where the NumPy kernel
is to serve it; with ``sizes``, for any number of samples: what else they are told of is how the
work is cut, and no result depends on that, but in the last digits of a weight gradient. ``native``
runs the same steps for eager calls.

There are two ways to put a convolution into vectors. ``taps`` (``conv``, ``conv_input_grad``) and
``weight_grad`` have output channels in lanes and a block of places, or of weights, in registers;
``lines`` has columns of the output in lanes, for few output channels a group. ``plan`` turns the
three primitives into one form (padded planes, phases, taps), cuts them into tiles and tasks and
says which rows of taps see nothing but padding; ``exact`` serves weights that are not finite.
``packing`` and ``transpose`` bring arrays into the layouts of kernels. ``pooling`` has the windows'
maxima, sums and transposes, ``scatter`` the transpose of max pooling.
"""

from __future__ import annotations

from collections.abc import Callable

from fx import limits
from fx.backends.cpu.llvm.conv import lines
from fx.backends.cpu.llvm.conv.plan import Batch, Job, forward_job, input_job, lifted
from fx.backends.cpu.llvm.conv.pooling import PoolStep, windows
from fx.backends.cpu.llvm.conv.scatter import UnpoolStep, comes_from_max_pool
from fx.backends.cpu.llvm.conv.taps import steps as taps_steps
from fx.backends.cpu.llvm.conv.weight_grad import steps as grad_steps
from fx.compiler.extents import Sizes
from fx.compiler.step import Step
from fx.graph.ir import Node, Value

_FLOATS = ("float32", "float64")


def _lines(node: Node) -> tuple[str, ...]:
    return (node.line,) if node.line else ()


def _served(node: Node) -> bool:
    specs = [v.spec for v in (*node.inputs, *node.outs)]
    return specs[0].dtype.name in _FLOATS and min(s.size for s in specs) > 0


def _fitting(steps: list[Step]) -> list[Step] | None:
    return steps if max(s.scratch for s in steps) <= limits.CONV_SCRATCH else None


def _batch(node: Node, sizes: Sizes | None, *planes: Value) -> Batch | None:
    """The samples of a node, some of whose arrays are planes; None if another size varies."""
    n = planes[0].spec.shape[0]
    if sizes is None:
        return Batch(n)
    for v in (*node.inputs, *node.outs):
        if sizes.touch(v.spec.shape[1:] if v in planes else v.spec.shape):
            return None
    if sizes.touch(list(node.params.values())):
        return None
    return Batch(sizes.extent(n), sizes)


def _forward(
    job: Job, batch: Batch, x: Value, w: Value, out: Value, told: tuple[str, ...]
) -> list[Step] | None:
    if lines.suits(job):
        return _fitting([lines.LinesStep(job, batch, x, w, out, told)])
    return _fitting(taps_steps(job, batch, x, w, out, told))


def conv(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``conv``."""
    x, w = node.inputs
    (out,) = node.outs
    batch = _batch(node, sizes, x, out)
    if batch is None or not _served(node):
        return None
    p = node.params
    job = forward_job(
        x.spec.dtype.name, (batch.planned, *x.spec.shape[1:]), w.spec.shape,
        p["stride"], p["padding"], p["dilation"], p["groups"],
    )  # fmt: skip
    return _forward(job, batch, x, w, out, _lines(node))


def conv_input_grad(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``conv_input_grad``."""
    g, w = node.inputs
    (out,) = node.outs
    batch = _batch(node, sizes, g, out)
    if batch is None or not _served(node):
        return None
    p = node.params
    job = input_job(
        g.spec.dtype.name, (batch.planned, *g.spec.shape[1:]), w.spec.shape,
        tuple(p["input_size"]), p["stride"], p["padding"], p["dilation"], p["groups"],
    )  # fmt: skip
    return _forward(job, batch, g, w, out, _lines(node))


def conv_weight_grad(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``conv_weight_grad``."""
    x, g = node.inputs
    (out,) = node.outs
    batch = _batch(node, sizes, x, g)
    if batch is None or not _served(node):
        return None
    p = node.params
    w = (g.spec.shape[1], x.spec.shape[1] // p["groups"], *p["kernel_size"])
    job = forward_job(
        x.spec.dtype.name, (batch.planned, *x.spec.shape[1:]), w,
        p["stride"], p["padding"], p["dilation"], p["groups"],
    )  # fmt: skip
    if lines.suits_weights(job):
        return _fitting([lines.LinesGradStep(job, batch, x, g, out, _lines(node))])
    window, dilation = lifted(p["kernel_size"], 1), lifted(p["dilation"], 1)
    return _fitting(grad_steps(job, batch, window, dilation, x, g, out, _lines(node)))


def _pooled(
    node: Node, size: tuple[int, ...], out: tuple[int, ...], sizes: Sizes | None
) -> list[Step] | None:
    if not _served(node):
        return None
    planes = node.inputs[0].spec.shape[:2]
    if sizes is not None:
        if sizes.touch([size, out, list(node.params.values())]):
            return None
        planes = sizes.shape(planes)
    win = windows(size, out, node.params)
    return _fitting(
        [PoolStep(node.primitive.name, win, planes, node.inputs, node.outs, _lines(node))]
    )


def pool(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``max_pool`` and ``window_sum``."""
    return _pooled(node, node.inputs[0].spec.shape[2:], node.outs[0].spec.shape[2:], sizes)


def window_sum_transpose(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``window_sum_transpose``."""
    return _pooled(node, tuple(node.params["input_size"]), node.inputs[0].spec.shape[2:], sizes)


def unpool(node: Node, sizes: Sizes | None = None) -> list[Step] | None:
    """Steps of ``scatter_along_axis``, where that is the transpose of ``max_pool``."""
    x, idx, _ = node.inputs
    last = node.params["axis"] == len(x.spec.shape) - 1
    if not (last and node.params["mode"] == "add" and comes_from_max_pool(idx)):
        return None
    rows = x.spec.shape[:-1]
    if sizes is not None:
        if sizes.touch((x.spec.shape[-1], idx.spec.shape[-1])):
            return None
        rows = sizes.shape(rows)
    return [UnpoolStep(node, rows, _lines(node))] if _served(node) else None


STEPS: dict[str, Callable[..., list[Step] | None]] = {
    "conv": conv,
    "conv_input_grad": conv_input_grad,
    "conv_weight_grad": conv_weight_grad,
    "max_pool": pool,
    "window_sum": pool,
    "window_sum_transpose": window_sum_transpose,
    "scatter_along_axis": unpool,
}
