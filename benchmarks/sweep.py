"""``python -m benchmarks sweep``: eager functions beside PyTorch's on 1M and on 100 elements.

The slowest by comparison come first. Each row is the median of ratios within rounds, of the time of
the CPU on one thread, once every kernel is made; with ``--grad`` it is the function recorded and
gone back over.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch

import fx
import fx.torch
from benchmarks.harness import timed
from fx import limits

Function = Callable[..., Any]


def _named(where: str, names: str) -> dict[str, tuple[Function, int]]:
    """Functions of one tensor or, after a slash, of two."""
    found: dict[str, tuple[Function, int]] = {}
    for count, group in enumerate(names.split("/"), 1):
        for name in group.split():

            def call(m: Any, *xs: Any, name: str = name) -> Any:
                home = m.nn.functional if where == "F" else m
                return getattr(home, name)(*xs)

            found[name if where == "m" else f"F.{name}"] = call, count
    return found


FUNCTIONS: dict[str, tuple[Function, int]] = {
    **_named(
        "m",
        """abs neg sqrt rsqrt square exp exp2 expm1 log log1p log2 log10 sin cos tan tanh sinh cosh
        asin acos atan asinh acosh atanh sigmoid erf erfc erfinv lgamma digamma floor ceil round
        trunc sign reciprocal relu isnan isfinite sum mean amax amin argmax var std norm clone
        / add sub mul div maximum minimum fmod remainder atan2 hypot eq lt dot""",
    ),
    **_named(
        "F",
        """elu selu celu gelu silu mish leaky_relu relu6 hardtanh hardsigmoid hardswish hardshrink
        softshrink tanhshrink softsign softplus logsigmoid glu
        / mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits""",
    ),
    "logsumexp": (lambda m, x: m.logsumexp(x.reshape(10, -1), 1), 1),
    "cumsum": (lambda m, x: m.cumsum(x, 0), 1),
    "F.cosine_similarity": (lambda m, x, y: m.nn.functional.cosine_similarity(
        x.reshape(10, -1), y.reshape(10, -1)), 2),
    "sort": (lambda m, x: m.sort(x)[0], 1),
    "pow": (lambda m, x, y: x.abs() ** 1.7, 2),
    "F.softmax": (lambda m, x: m.nn.functional.softmax(x.reshape(10, -1), 1), 1),
    "F.log_softmax": (lambda m, x: m.nn.functional.log_softmax(x.reshape(10, -1), 1), 1),
    "F.normalize": (lambda m, x: m.nn.functional.normalize(x.reshape(10, -1)), 1),
    "where": (lambda m, x, y: m.where(x > 0, x, y), 2),
    "masked_fill": (lambda m, x, y: x.masked_fill(y > 0, 0.5), 2),
    "mask added": (lambda m, x, y: x + (y > 0), 2),
    "bias added": (lambda m, x: x.reshape(-1, 10) + x[:10], 1),
    "clamp": (lambda m, x: m.clamp(x, -0.5, 0.5), 1),
    "lerp": (lambda m, x, y: m.lerp(x, y, 0.3), 2),
    "addcmul": (lambda m, x, y: m.addcmul(x, x, y, value=0.5), 2),
    "softmax of columns": (lambda m, x: m.softmax(x.reshape(-1, 10), 0), 1),
    "F.layer_norm": (lambda m, x: m.nn.functional.layer_norm(x.reshape(-1, 10), (10,)), 1),
    "F.prelu": (lambda m, x, y: m.nn.functional.prelu(x.reshape(1, 10, -1), y[:10]), 2),
    "cdist": (lambda m, x, y: m.cdist(_square(x), _square(y)), 2),
    **{
        f"F.interpolate, {mode}": (lambda m, x, mode=mode: m.nn.functional.interpolate(
            _square(x)[None, None], scale_factor=2, mode=mode), 1)
        for mode in ("nearest", "bilinear", "bicubic")
    },
    "F.grid_sample": (lambda m, x, y: m.nn.functional.grid_sample(
        _square(x)[None, None], _grid(y), align_corners=False), 2),
    "F.cross_entropy": (lambda m, x: m.nn.functional.cross_entropy(
        x.reshape(-1, 10), _classes(m, x)), 1),
    "F.cross_entropy, smoothed": (lambda m, x: m.nn.functional.cross_entropy(
        x.reshape(-1, 10), _classes(m, x), label_smoothing=0.1), 1),
    "F.cross_entropy, weighted": (lambda m, x: m.nn.functional.cross_entropy(
        x.reshape(-1, 10), _classes(m, x), x[:10].abs()), 1),
    "F.cross_entropy, of shares": (lambda m, x, y: m.nn.functional.cross_entropy(
        x.reshape(-1, 10), y.reshape(-1, 10)), 2),
    "F.nll_loss": (lambda m, x: m.nn.functional.nll_loss(
        x.reshape(-1, 10), _classes(m, x)), 1),
    "F.kl_div": (lambda m, x, y: m.nn.functional.kl_div(x, y.abs(), reduction="sum"), 2),
    "F.poisson_nll_loss": (lambda m, x, y: m.nn.functional.poisson_nll_loss(x, y), 2),
    "F.gaussian_nll_loss": (lambda m, x, y: m.nn.functional.gaussian_nll_loss(
        x, y, y.abs()), 2),
    "F.soft_margin_loss": (lambda m, x, y: m.nn.functional.soft_margin_loss(x, y), 2),
    "F.hinge_embedding_loss": (lambda m, x, y: m.nn.functional.hinge_embedding_loss(x, y), 2),
    "F.margin_ranking_loss": (lambda m, x, y: m.nn.functional.margin_ranking_loss(
        x, y, y.sign()), 2),
    "F.triplet_margin_loss": (lambda m, x, y: m.nn.functional.triplet_margin_loss(
        x.reshape(-1, 10), y.reshape(-1, 10), x.reshape(-1, 10) * 0.5), 2),
    "F.cosine_embedding_loss": (lambda m, x, y: m.nn.functional.cosine_embedding_loss(
        x.reshape(-1, 10), y.reshape(-1, 10), y[: x.shape[0] // 10].sign()), 2),
    "F.binary_cross_entropy": (lambda m, x, y: m.nn.functional.binary_cross_entropy(
        x.sigmoid(), y.sigmoid()), 2),
    "F.pairwise_distance": (lambda m, x, y: m.nn.functional.pairwise_distance(
        x.reshape(-1, 10), y.reshape(-1, 10)), 2),
    "F.pdist": (lambda m, x: m.nn.functional.pdist(_square(x)), 1),
    "F.one_hot": (lambda m, x: m.nn.functional.one_hot(_classes(m, x), 10), 1),
    "F.rms_norm": (lambda m, x: m.nn.functional.rms_norm(x.reshape(-1, 10), (10,)), 1),
    "F.group_norm": (lambda m, x: m.nn.functional.group_norm(x.reshape(1, 10, -1), 5), 1),
    "F.instance_norm": (lambda m, x: m.nn.functional.instance_norm(x.reshape(1, 10, -1)), 1),
    "F.batch_norm": (lambda m, x: m.nn.functional.batch_norm(
        x.reshape(-1, 10), None, None, training=True), 1),
    **{
        f"{name}, axis {axis}": (lambda m, x, name=name, axis=axis: getattr(m, name)(
            x.reshape(-1, 10), dim=axis), 1)
        for name in ("sum", "mean", "amax", "std") for axis in (0, 1)
    },
    "sum of images": (lambda m, x: x.reshape(1, 10, -1).sum((0, 2)), 1),
    "to float64": (lambda m, x: x.to(m.float64), 1),
    "to float16": (lambda m, x: x.to(m.float16), 1),
    "to int64": (lambda m, x: x.to(m.int64), 1),
    "F.softmin": (lambda m, x: m.nn.functional.softmin(x.reshape(-1, 10), 1), 1),
    "nan_to_num": (lambda m, x: m.nan_to_num(x), 1),
    "heaviside": (lambda m, x, y: m.heaviside(x, y), 2),
    "logaddexp": (lambda m, x, y: m.logaddexp(x, y), 2),
    "xlogy": (lambda m, x, y: m.xlogy(x, y.abs()), 2),
    "outer": (lambda m, x, y: m.outer(x[: _root(x)], y[: _root(x)]), 2),
    "tril": (lambda m, x: m.tril(_square(x)), 1),
    "norm, 1": (lambda m, x: m.linalg.vector_norm(x, 1), 1),
    "norm of rows": (lambda m, x: m.linalg.vector_norm(x.reshape(-1, 10), dim=1), 1),
    "addcdiv": (lambda m, x, y: m.addcdiv(x, x, y.abs() + 1.0, value=0.5), 2),
    "roll": (lambda m, x: m.roll(x, 7), 1),
    "flip": (lambda m, x: m.flip(x, (0,)), 1),
    "F.threshold": (lambda m, x: m.nn.functional.threshold(x, 0.1, 0.5), 1),
    "F.pad": (lambda m, x: m.nn.functional.pad(_square(x)[None, None], (1, 1, 1, 1)), 1),
    "flip of rows": (lambda m, x: m.flip(x.reshape(10, -1), (1,)), 1),
    **{
        f"power {p}": (lambda m, x, p=p: x**p, 1) for p in (0, 2, 3, 4, -1, -2, 0.5, -0.5)
    },
    **{
        f"pdist of p {p}": (lambda m, x, p=p: m.nn.functional.pdist(_square(x), p=p), 1)
        for p in (1.0, 3.0, float("inf"))
    },
    "cdist of p 1": (lambda m, x, y: m.cdist(_square(x), _square(y), p=1.0), 2),
    "bias of 100": (lambda m, x: x.reshape(-1, 100) + x[:100], 1),
    "outer sum": (lambda m, x, y: x[: _root(x), None] + y[: _root(x)], 2),
    "prod": (lambda m, x: (x * 0.001 + 1.0).prod(), 1),
    "max of columns": (lambda m, x: x.reshape(-1, 10).max(0)[0], 1),
    "cross": (lambda m, x, y: m.linalg.cross(_triples(x), _triples(y)), 2),
    "median": (lambda m, x: m.median(x), 1),
    "frac": (lambda m, x: m.frac(x), 1),
    "cummax": (lambda m, x: m.cummax(x, 0)[0], 1),
    "cummin of rows": (lambda m, x: m.cummin(x.reshape(-1, 10), 1)[0], 1),
    "nansum": (lambda m, x: m.nansum(x), 1),
    "nanmedian": (lambda m, x: m.nanmedian(x), 1),
    "vander": (lambda m, x: m.vander(x[: x.shape[0] // 10], 10), 1),
    "kron": (lambda m, x, y: m.kron(
        x[: _root(x)].reshape(10, -1), y[: _root(x)].reshape(10, -1)), 2),
    "diag_embed": (lambda m, x: m.diag_embed(x[: _root(x)]), 1),
    "combinations": (lambda m, x: m.combinations(x[: _root(x)]), 1),
    "gradient": (lambda m, x: m.gradient(x)[0], 1),
    "nextafter": (lambda m, x, y: m.nextafter(x, y), 2),
    "copysign": (lambda m, x, y: m.copysign(x, y), 2),
    "logical_and": (lambda m, x, y: m.logical_and(x, y), 2),
    "gcd": (lambda m, x: m.gcd(m.arange(x.shape[0]), m.arange(x.shape[0]) + 12), 1),
    "sort of integers": (lambda m, x: m.sort((x * 1000).to(m.int64))[0], 1),
    "cdist, 500 features": (lambda m, x, y: m.cdist(
        *[a[: a.shape[0] // 10].reshape(-1, min(500, a.shape[0] // 20)) for a in (x, y)]), 2),
    "F.unfold": (lambda m, x: m.nn.functional.unfold(_square(x)[None, None], 3), 1),
    "F.fold": (lambda m, x: m.nn.functional.fold(
        m.nn.functional.unfold(_square(x)[None, None], 2), _square(x).shape, 2), 1),
    "windows, copied": (lambda m, x: x[: x.shape[0] // 4].unfold(0, 8, 2).clone(), 1),
    "narrow columns, copied": (lambda m, x: x.reshape(-1, 10)[:, 2:5].clone(), 1),
    "F.embedding_bag": (lambda m, x: m.nn.functional.embedding_bag(
        _classes(m, x).reshape(-1, 10), x.reshape(-1, 10)), 1),
    "F.multilabel_margin_loss": (lambda m, x: m.nn.functional.multilabel_margin_loss(
        x.reshape(-1, 10), (m.arange(x.shape[0]) % 10).reshape(-1, 10)), 1),
    "F.group_norm, weighted": (lambda m, x: m.nn.functional.group_norm(
        x.reshape(1, 10, -1), 5, x[:10], x[10:20]), 1),
    **{
        f"{name} of {dtype}": (lambda m, x, y, name=name, dtype=dtype: getattr(m, name)(
            x.to(getattr(m, dtype)), y.to(getattr(m, dtype))), 2)
        for name in ("add", "div") for dtype in ("float16", "bfloat16")
    },
    **{
        f"F.pad, {mode}": (lambda m, x, mode=mode: m.nn.functional.pad(
            _square(x)[None, None], (2, 2, 2, 2), mode=mode), 1)
        for mode in ("reflect", "replicate", "circular")
    },
    **{
        f"F.grid_sample, {mode}, {padding}": (
            lambda m, x, y, mode=mode, padding=padding: m.nn.functional.grid_sample(
                _square(x)[None, None], _grid(y), mode, padding, align_corners=False), 2)
        for mode in ("nearest", "bilinear", "bicubic")
        for padding in ("zeros", "border", "reflection")
    },
    **{
        f"F.max_pool1d of {n}": (lambda m, x, n=n: m.nn.functional.max_pool1d(
            x.reshape(1, 10, -1), n), 1)
        for n in (2, 3)
    },
    "F.max_pool1d of 3, step 1": (lambda m, x: m.nn.functional.max_pool1d(
        x.reshape(1, 10, -1), 3, 1), 1),
    "F.embedding_bag, sum": (lambda m, x: m.nn.functional.embedding_bag(
        _classes(m, x).reshape(-1, 10), x.reshape(-1, 10), mode="sum"), 1),
    "trapezoid": (lambda m, x: m.trapezoid(x), 1),
    "addr": (lambda m, x, y: m.addr(_square(x), *[v[: _square(x).shape[0]] for v in (x, y)]), 2),
    "clamp below": (lambda m, x: m.clamp(x, min=0.0), 1),
    "sum of every second": (lambda m, x: x.reshape(10, -1)[:, ::2].sum(), 1),
    "sum of parts of rows": (lambda m, x: x.reshape(10, -1)[:, : x.shape[0] // 20].sum(), 1),
    "arange": (lambda m, x: x + m.arange(x.shape[0], dtype=m.float32), 1),
    "linspace": (lambda m, x: x + m.linspace(0, 1, x.shape[0]), 1),
}  # fmt: skip


# where a function is defined: beside it both libraries leave their vectors
_DOMAINS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("sqrt", "rsqrt", "log", "log1p", "log2", "log10", "lgamma", "digamma"), np.abs
    ),
    **dict.fromkeys(("asin", "acos", "atanh", "erfinv"), lambda x: np.tanh(x) * np.float32(0.999)),
    **dict.fromkeys(("power 0.5", "power -0.5"), np.abs),
    "acosh": lambda x: np.abs(x) + np.float32(1),
}


def _root(x: Any) -> int:
    return int(x.shape[0] ** 0.5)


def _triples(x: Any) -> Any:
    return x[: x.shape[0] // 3 * 3].reshape(-1, 3)


def _classes(m: Any, x: Any) -> Any:
    return m.arange(x.shape[0] // 10) % 10


def _grid(x: Any) -> Any:
    side = int((x.shape[0] // 2) ** 0.5)
    return (x[: side * side * 2] * 0.5).reshape(1, side, side, 2)


def _square(x: Any) -> Any:
    side = int(x.shape[0] ** 0.5) // 2
    return x[: side * side].reshape(side, side)


def ratio(
    f: Function,
    count: int,
    size: int,
    rounds: int,
    grad: bool,
    domain: Callable[[Any], Any] = np.asarray,
) -> tuple[float, float]:
    """fx / torch, and the seconds of fx; ``domain`` maps normal samples into that of ``f``."""
    random = np.random.default_rng(0)
    arrays = [domain(random.normal(size=size).astype(np.float32)) for _ in range(count)]

    def run(m: Any) -> Callable[[], Any]:
        xs = [m.tensor(a, requires_grad=grad) for a in arrays]
        if not grad:
            return lambda: f(m, *xs)
        ct = m.ones_like(f(m, *xs).detach())
        return lambda: m.autograd.grad(f(m, *xs), xs, ct, allow_unused=True)

    mine, peer = timed(_settled(run(fx.torch)), process_time), timed(run(torch), process_time)
    pairs = [(mine(), peer()) for _ in range(rounds)]
    return median([a / b for a, b in pairs]), median([a for a, _ in pairs])


def _settled(run: Callable[[], Any]) -> Callable[[], Any]:
    """The same after the calls that a reference serves while a kernel would have to be made."""
    for _ in range(limits.EARLY_CALLS + 2):
        run()
    return run


def main(words: list[str]) -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sweep", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, nargs="*", default=[1_000_000, 100])
    parser.add_argument("--grad", action="store_true")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    fx.set_num_threads(1)
    for size in options.size:
        rows = []
        for name, (f, count) in FUNCTIONS.items():
            if options.names and not any(part in name for part in options.names):
                continue
            try:
                domain = _DOMAINS.get(name, np.asarray)
                found = ratio(f, count, size, options.rounds, options.grad, domain)
                rows.append((*found, name))
            except (TypeError, RuntimeError, AttributeError) as error:
                print(f"{name}: {error}")
        print(f"\n| {size} elements | fx / torch | fx |\n| --- | --- | --- |")
        for quotient, seconds, name in sorted(rows, reverse=True):
            print(f"| {name} | {quotient:.2f} | {seconds * 1e6:.1f} us |")
