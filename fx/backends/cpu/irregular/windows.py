"""Pooling, and columns of windows for small convolutions. ``geo`` is the array of ``_windows``.

Taps go outside the loop over a row of outputs, which so runs without a test.
"""

from fx.backends.cpu.irregular.language import ARRAY, INT, INT64S, inline, offset


@inline
def _sizes(g):
    return (
        *(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8]),
        *(g[9], g[10], g[11], g[12], g[13], g[14], g[15], g[16], g[17]),
    )


def max_pool(begin, end, x: ARRAY, values: ARRAY, places: INT64S, lowest: ARRAY, geo: INT64S):
    """The first maximum of each window and its place; NaN wins; ``lowest`` where nothing is seen.

    A task is a plane: x (planes, D*H*W), values and places (planes, outputs).
    """
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, tD, tH, tW = _sizes(geo)
    for p in range(begin, end):
        plane = offset(x, p * D * H * W)
        for r in range(tD * tH):
            row = offset(values, (p * tD * tH + r) * tW)
            place = offset(places, (p * tD * tH + r) * tW)
            for t in range(tW):
                row[t] = lowest[0]
                place[t] = -1
            for kd in range(kD):
                d = (r // tH) * sD - pD + kd * dD
                if d < 0 or d >= D:
                    continue
                for kh in range(kH):
                    h = (r % tH) * sH - pH + kh * dH
                    if h < 0 or h >= H:
                        continue
                    for kw in range(kW):
                        at = (d * H + h) * W + kw * dW - pW
                        for t in range(geo[18 + 2 * kw], geo[19 + 2 * kw]):
                            i = at + t * sW
                            v = plane[i]
                            best, where = row[t], place[t]
                            # no branch: which tap wins is anybody's guess
                            better = (v > best) | (v != v) | (where < 0)
                            row[t] = v if better else best
                            place[t] = i if better else where
            for t in range(tW):
                place[t] = max(place[t], 0)


@inline
def _over_taps(begin, end, images, windows, geo, meet):
    """``meet(windows, t, images, i)`` for each window t and each place i that it sees.

    images (planes, D*H*W), windows (planes, outputs); a task is a plane.
    """
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, tD, tH, tW = _sizes(geo)
    for p in range(begin, end):
        plane = offset(images, p * D * H * W)
        for r in range(tD * tH):
            row = offset(windows, (p * tD * tH + r) * tW)
            for kd in range(kD):
                d = (r // tH) * sD - pD + kd * dD
                if d < 0 or d >= D:
                    continue
                for kh in range(kH):
                    h = (r % tH) * sH - pH + kh * dH
                    if h < 0 or h >= H:
                        continue
                    for kw in range(kW):
                        at = (d * H + h) * W + kw * dW - pW
                        for t in range(geo[18 + 2 * kw], geo[19 + 2 * kw]):
                            meet(row, t, plane, at + t * sW)


@inline
def _gather(row, t, plane, i):
    row[t] += plane[i]


@inline
def _spread(row, t, plane, i):
    plane[i] += row[t]


def window_sum(begin, end, x: ARRAY, out: ARRAY, geo: INT64S):
    """out (planes, outputs), zeros on entry, += the sums over the windows of x (planes, D*H*W)."""
    _over_taps(begin, end, x, out, geo, _gather)


def window_sum_transpose(begin, end, g: ARRAY, out: ARRAY, geo: INT64S):
    """out (planes, D*H*W), zeros on entry, += g (planes, outputs) spread over the windows."""
    _over_taps(begin, end, out, g, geo, _spread)


# fmt: off
def im2col(
    begin, end, x: ARRAY, cols: ARRAY, channels: INT, sample_step: INT, row_step: INT,
    geo: INT64S, r0: INT, r1: INT, w0: INT, w1: INT,
):
    # fmt: on
    """x (n, channels, D*H*W) -> columns of a tile; row c*taps + tap holds what that tap reads.

    A task is a sample. A tile is the output rows [r0, r1) (all output dimensions but the last,
    flattened) by the output columns [w0, w1). Element (sample, row, position in the tile) is
    cols[sample * sample_step + row * row_step + position].
    """
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, _, tH, _ = _sizes(geo)
    for n in range(begin, end):
        to_row = offset(cols, n * sample_step - w0)
        for c in range(channels):
            plane = offset(x, (n * channels + c) * D * H * W)
            for kd in range(kD):
                for kh in range(kH):
                    for kw in range(kW):
                        first = min(max(geo[18 + 2 * kw], w0), w1)
                        last = max(min(geo[19 + 2 * kw], w1), first)
                        for r in range(r0, r1):
                            target = offset(to_row, (r - r0) * (w1 - w0))
                            d = (r // tH) * sD - pD + kd * dD
                            h = (r % tH) * sH - pH + kh * dH
                            if d < 0 or d >= D or h < 0 or h >= H:
                                for w in range(w0, w1):
                                    target[w] = 0
                                continue
                            source = offset(plane, (d * H + h) * W + kw * dW - pW)
                            for w in range(w0, first):
                                target[w] = 0
                            if sW == 1:
                                for w in range(first, last):
                                    target[w] = source[w]
                            else:
                                for w in range(first, last):
                                    target[w] = source[w * sW]
                            for w in range(last, w1):
                                target[w] = 0
                        to_row = offset(to_row, row_step)


# fmt: off
def col2im(
    begin, end, cols: ARRAY, x: ARRAY, channels: INT, sample_step: INT, row_step: INT,
    geo: INT64S, r0: INT, r1: INT, w0: INT, w1: INT,
):
    # fmt: on
    """The transpose of im2col: adds cols into x (n, channels, D*H*W)."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, _, tH, _ = _sizes(geo)
    for n in range(begin, end):
        from_row = offset(cols, n * sample_step - w0)
        for c in range(channels):
            plane = offset(x, (n * channels + c) * D * H * W)
            for kd in range(kD):
                for kh in range(kH):
                    for kw in range(kW):
                        first = min(max(geo[18 + 2 * kw], w0), w1)
                        last = max(min(geo[19 + 2 * kw], w1), first)
                        for r in range(r0, r1):
                            d = (r // tH) * sD - pD + kd * dD
                            h = (r % tH) * sH - pH + kh * dH
                            if d < 0 or d >= D or h < 0 or h >= H:
                                continue
                            source = offset(from_row, (r - r0) * (w1 - w0))
                            target = offset(plane, (d * H + h) * W + kw * dW - pW)
                            if sW == 1:
                                for w in range(first, last):
                                    target[w] += source[w]
                            else:
                                for w in range(first, last):
                                    target[w * sW] += source[w]
                        from_row = offset(from_row, row_step)
