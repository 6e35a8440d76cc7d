"""Numba kernels of pooling. `geo` is the geometry array of `_windows`.

x is (P, D*H*W) and outputs are (P, T), P planes (samples times channels). Taps go outside the loop
over a row of outputs, which so runs without bounds checks.
"""

from numba import njit


@njit(inline="always")
def _sizes(g):
    return (
        *(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8]),
        *(g[9], g[10], g[11], g[12], g[13], g[14], g[15], g[16], g[17]),
    )


@njit(cache=True, nogil=True)
def max_pool(x, values, indices, lowest, geo):
    """The first maximum of each window and its place; NaN wins; `lowest` where nothing is seen."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, tD, tH, tW = _sizes(geo)
    for p in range(x.shape[0]):
        plane = x[p]
        for r in range(tD * tH):
            row = values[p, r * tW : (r + 1) * tW]
            place = indices[p, r * tW : (r + 1) * tW]
            for t in range(tW):
                row[t] = lowest
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
                if place[t] < 0:
                    place[t] = 0


@njit(cache=True, nogil=True)
def window_sum(x, out, geo):
    """out (P, T), zeros on entry, += the sums over the windows of x (P, V)."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, tD, tH, tW = _sizes(geo)
    for p in range(x.shape[0]):
        plane = x[p]
        for r in range(tD * tH):
            row = out[p, r * tW : (r + 1) * tW]
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
                            row[t] += plane[at + t * sW]


@njit(cache=True, nogil=True)
def window_sum_transpose(g, out, geo):
    """out (P, V), zeros on entry, += g (P, T) spread over the windows."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, tD, tH, tW = _sizes(geo)
    for p in range(g.shape[0]):
        plane = out[p]
        for r in range(tD * tH):
            row = g[p, r * tW : (r + 1) * tW]
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
                            plane[at + t * sW] += row[t]
