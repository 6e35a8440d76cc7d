"""``jax.lax``'s names with JAX's arguments: ``import fx.lax as lax``.

Names whose meaning is the same are those of ``fx``. ``gather`` and ``scatter`` take JAX's dimension
numbers; ``x[i]`` and ``x.at[i].add(v)`` say the same in fewer words.
"""

from __future__ import annotations

from typing import Any

import fx
from fx.lax import (
    bits,
    elements,
    gathering,
    order,
    patches,
    products,
    ragged,
    scattering,
    shapes,
    slices,
    solves,
    windows,
)

_SAME = """
    abs acos acosh add all_gather all_to_all asin asinh associative_scan atan atan2 atanh axis_index
    axis_size bitwise_and bitwise_not bitwise_or bitwise_xor broadcast_shapes cbrt ceil cond conj
    cos cosh digamma empty eq erf erfc exp exp2 expm1 floor fori_loop full full_like ge gt imag le
    lgamma log log1p lt map mul ne neg nextafter pbroadcast pmax pmean pmin pow ppermute psum
    psum_scatter real reciprocal rsqrt scan sign sin sinh sqrt square stop_gradient sub switch tan
    tanh tile unstack while_loop"""
_RENAMED = {
    "max": "maximum", "min": "minimum", "rem": "fmod", "is_finite": "isfinite",
    "shift_left": "bitwise_left_shift",
    "shift_right_arithmetic": "bitwise_right_shift", "logistic": "sigmoid", "erf_inv": "erfinv",
    "batch_matmul": "matmul",
}  # fmt: skip
_SPECIAL = {
    "bessel_i0e": "i0e", "bessel_i1e": "i1e", "betainc": "betainc", "igamma": "gammainc",
    "igammac": "gammaincc", "zeta": "zeta",
}  # fmt: skip
_OWN = (
    (bits, """
        RoundingMethod bitcast_convert_type clz dtype mulhi population_count reduce_precision
        rng_uniform round shift_right_logical"""),
    (elements, """
        clamp complex convert_element_type div igamma_grad_a integer_pow polygamma select
        select_n"""),
    (gathering, "gather index_take"),
    (scattering, """
        scatter scatter_add scatter_apply scatter_max scatter_min scatter_mul scatter_sub"""),
    (windows, "GatherDimensionNumbers GatherScatterMode ScatterDimensionNumbers"),
    (order, """
        approx_max_k approx_min_k argmax argmin cumlogsumexp cummax cummin cumprod cumsum reduce
        reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_window reduce_xor
        sort sort_key_val top_k"""),
    (products, """
        DotDimensionNumbers conv conv_dimension_numbers conv_general_dilated conv_transpose
        conv_with_general_padding dot dot_general fft ragged_dot"""),
    (patches, "conv_general_dilated_local conv_general_dilated_patches"),
    (shapes, """
        broadcast broadcast_in_dim broadcast_like broadcast_to_rank broadcasted_iota collapse
        concatenate expand_dims iota pad reshape rev split squeeze stack transpose"""),
    (ragged, "RaggedDotDimensionNumbers ragged_dot_general scaled_dot"),
    (solves, "custom_linear_solve custom_root"),
    (slices, """
        dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim dynamic_update_index_in_dim
        dynamic_update_slice dynamic_update_slice_in_dim index_in_dim slice slice_in_dim"""),
)  # fmt: skip
for _module, _names in _OWN:
    globals().update({name: getattr(_module, name) for name in _names.split()})
globals().update({name: getattr(fx, name) for name in _SAME.split()})
globals().update({name: getattr(fx, ours) for name, ours in _RENAMED.items()})
globals().update({name: getattr(fx.special, ours) for name, ours in _SPECIAL.items()})


_LATE = ("with_sharding_constraint",)  # of rooms that load when they are first asked for


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _LATE:
        return getattr(fx, name)
    raise AttributeError(
        f"fx has no lax.{name}; dir(fx.lax) lists what there is, and names of jax.numpy are those "
        f"of fx"
    )


def __dir__() -> list[str]:
    return sorted([*globals(), *_LATE])
