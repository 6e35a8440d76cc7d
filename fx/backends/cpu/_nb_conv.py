"""Numba kernels of convolution. `geo` is the geometry array of `_windows`.

im2col and col2im work on a tile: output rows [r0, r1) (all output dimensions but the last,
flattened) by output columns [w0, w1). Element (sample, column row, position in the tile) of the
buffer is cols[sample * sample_step + row * row_step + position].

Unit-stride loops run over slices from 0: only there does LLVM know that no index is negative (and
so wraps around), and vectorise.
"""

from numba import njit


@njit(inline="always")
def _sizes(g):
    return (
        *(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8]),
        *(g[9], g[10], g[11], g[12], g[13], g[14], g[15], g[16], g[17]),
    )


@njit(cache=True, nogil=True)
def im2col(x, cols, sample_step, row_step, geo, r0, r1, w0, w1):
    """x (n, C, D*H*W) -> cols; column row c*taps + tap holds what that tap reads."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, _, tH, _ = _sizes(geo)
    for n in range(x.shape[0]):
        row = 0
        for c in range(x.shape[1]):
            plane = x[n, c]
            for kd in range(kD):
                for kh in range(kH):
                    for kw in range(kW):
                        offset = kw * dW - pW
                        first = min(max(geo[18 + 2 * kw], w0), w1)
                        last = max(min(geo[19 + 2 * kw], w1), first)
                        to = n * sample_step + row * row_step - w0
                        for r in range(r0, r1):
                            d = (r // tH) * sD - pD + kd * dD
                            h = (r % tH) * sH - pH + kh * dH
                            if d < 0 or d >= D or h < 0 or h >= H:
                                for w in range(w0, w1):
                                    cols[to + w] = 0
                            else:
                                at = (d * H + h) * W + offset
                                for w in range(w0, first):
                                    cols[to + w] = 0
                                if sW == 1:
                                    source = plane[at + first : at + last]
                                    target = cols[to + first : to + last]
                                    for w in range(source.shape[0]):
                                        target[w] = source[w]
                                else:
                                    for w in range(first, last):
                                        cols[to + w] = plane[at + w * sW]
                                for w in range(last, w1):
                                    cols[to + w] = 0
                            to += w1 - w0
                        row += 1


@njit(cache=True, nogil=True)
def col2im(cols, x, sample_step, row_step, geo, r0, r1, w0, w1):
    """The transpose of im2col: adds cols into x (n, C, D*H*W)."""
    D, H, W, kD, kH, kW, sD, sH, sW, pD, pH, pW, dD, dH, dW, _, tH, _ = _sizes(geo)
    for n in range(x.shape[0]):
        row = 0
        for c in range(x.shape[1]):
            plane = x[n, c]
            for kd in range(kD):
                for kh in range(kH):
                    for kw in range(kW):
                        offset = kw * dW - pW
                        first = min(max(geo[18 + 2 * kw], w0), w1)
                        last = max(min(geo[19 + 2 * kw], w1), first)
                        start = n * sample_step + row * row_step - w0
                        for r in range(r0, r1):
                            d = (r // tH) * sD - pD + kd * dD
                            h = (r % tH) * sH - pH + kh * dH
                            if d < 0 or d >= D or h < 0 or h >= H:
                                continue
                            at = (d * H + h) * W + offset
                            begin = start + (r - r0) * (w1 - w0)
                            if sW == 1:
                                target = plane[at + first : at + last]
                                source = cols[begin + first : begin + last]
                                for w in range(source.shape[0]):
                                    target[w] += source[w]
                            else:
                                for w in range(first, last):
                                    plane[at + w * sW] += cols[begin + w]
                        row += 1
