"""The CPU: NumPy's ufuncs where they are good, else kernels of ``llvm`` and ``irregular``."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from keyword import iskeyword
from typing import Any

import numpy as np

ARRAY = np.ndarray

# Infinities and NaN are values like others. Only what fx's own frames compute is kept quiet: a
# user's NumPy code warns as before, and an errstate around each kernel would cost 0.7 us a call.
_OURS = r"fx\."
warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning, _OURS)


# where the kernels are: in each file functions of the names of their primitives
KERNELS = {
    "attention": "attention attention_grad",
    "collective": """
        psum pmax pmin all_gather psum_scatter all_to_all pbroadcast ppermute mesh_index shard
        unshard""",
    "control_flow": "unstack stack cond scan while",
    "conv": "conv conv_input_grad conv_weight_grad",
    "creation": "full iota",
    "cumulative": "cumsum cumprod cummax cummin logcumsumexp recurrence vander",
    "draws": """
        random_draw random_truncated_normal random_permutation random_below random_integers
        random_gamma random_poisson random_binomial random_multinomial""",
    "folding": "unfolded_image folded_image unfold_grad",
    "fourier": "fft rfft irfft",
    "elementwise": """
        add subtract multiply divide power floor_divide remainder fmod maximum minimum arctan2 hypot
        logaddexp copysign nextafter negative abs sign square sqrt rsqrt reciprocal exp exp2 expm1
        log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh
        sigmoid softplus relu floor ceil trunc round divisor equal not_equal less less_equal greater
        greater_equal logical_and logical_or logical_xor logical_not isnan isinf isfinite signbit
        bitwise_and bitwise_or bitwise_xor bitwise_not left_shift right_shift where astype
        stop_gradient conj part complex elementary""",
    "counting": "bincount counts_between",
    "classes": "nll nll_grad multilabel_margin multilabel_margin_grad",
    "index": "bags wrap_index take take_along_axis scatter scatter_along_axis one_hot",
    "lapack.eager": "cholesky_pulled cofactors inverse_transposed verified",
    "matmul": "matmul mv linear",
    "philox": "random_bits derive with_lane next_key",
    "pool": "max_pool max_pool_values window_mean window_sum window_sum_transpose",
    "reduction": "sum prod max min any all argmax argmin logsumexp softmax log_softmax",
    "resampling": "resample spread sample sample_grad",
    "scipy_linalg": """
        balance cossin decomposition generalized_schur ldl ldl_order matrix_function solve_banded
        sylvester""",
    "shape": """
        reshape transpose broadcast_to sum_to slice pad bordered bordered_grad concatenate flip
        roll triangle""",
    "special": """
        erf erfc erfinv lgamma digamma trigamma polygamma zeta erfcx erfcinv log_ndtr ndtri betainc
        gamma logit gammainc gammaincc bessel airy_ai airy_ai_slope scipy_function xlogy xlog1py
        entr""",
    "sort": """
        argsort top_k_indices ranked_indices searchsorted first ranked places_at_shares""",
}
# and what makes the kernel of a formula
FORMULAS = {
    "rows": """
        softmax_grad log_softmax_grad layer_norm layer_norm_grad group_norm group_norm_grad moments
        batch_norm batch_norm_grad batch_norm_step normalised distances pair_distances pulls
        cross_entropy cross_entropy_grad dot""",
}
# those that LAPACK's plans are for
FACTORS = frozenset(
    """cholesky det eig eigh eigvals eigvalsh inv lu lu_solve matrix_exp order_of pinv qr slogdet
    solve svd svdvals triangular_solve""".split()  # noqa: SIM905
)
_MAKERS = {name: file for file, names in FORMULAS.items() for name in names.split()}
_FILES = {name: file for file, names in KERNELS.items() for name in names.split()}


def kernel_for(primitive: Any) -> Any:
    """The kernel of a primitive; None where there is none, and its block has to bring one."""
    name = primitive.name
    if name in _FILES:
        file = import_module(f"{__name__}.{_FILES[name]}")
        return getattr(file, name + "_" * iskeyword(name))
    if name in FACTORS:
        return import_module(f"{__name__}.lapack.eager").kernel_of(primitive)
    if name in _MAKERS:
        file = import_module(f"{__name__}.{_MAKERS[name]}")
        return getattr(file, name)(primitive.formula)
    words = getattr(primitive, "words", None)
    if words is None:
        return None
    if primitive.pattern:
        from fx.backends.cpu.rows import along

        return along(primitive)
    from fx.backends.cpu.formulas import Elements

    return Elements(name, primitive.formula, words).call()  # a fused function of elements


def kernel_of_many(primitive: Any) -> Any:
    """What takes the place of a kernel of one or two arrays where the first has many elements.

    None where the kernel itself does.
    """
    if _FILES.get(primitive.name) != "elementwise":
        return None
    return import_module(f"{__name__}.many").of_many(primitive.name, kernel_for(primitive))


def kernel_into(primitive: Any) -> tuple[Any, int, str] | None:
    """The kernel of a primitive that takes an array for the result as well, of the same dtype.

    Returns:
        ``kernel(*arrays, out)``, of the bits of the primitive's own, the number of arrays, and the
        characters of the dtypes that it is for; None where there is no such kernel.
    """
    kernel = primitive.cpu
    if type(kernel) is np.ufunc:
        many = import_module(f"{__name__}.many")
        if many.is_compiled(primitive.name):
            return (many.into(primitive.name), 1, "fd") if kernel.nin == 1 else None
        among = "fdbhilBHIL?" if kernel.nin == 2 else "fd"
        chars = "".join([c for c in among if f"{c * kernel.nin}->{c}" in kernel.types])
        return (kernel, kernel.nin, chars) if chars else None
    into = getattr(kernel, "into", None)
    if into is not None:  # of a formula: None where it has nothing for its arguments
        return into(), into.args[0], "fd"
    if primitive.name != "relu":
        return None
    return import_module(f"{__name__}.elementwise").relu_into, 1, "fd"


def small_draws() -> Any:
    """``f(key, family, shape, dtype, more, out)``: a small draw and the next key by one call."""
    return import_module(f"{__name__}.draws").with_next_key


def between_ranks() -> Any:
    """The axes of meshes, and the words by which compiled code knows them."""
    return import_module(f"{__name__}.collective")


def from_numpy(array: np.ndarray) -> np.ndarray:
    """The array itself: no copy."""
    return array


def to_numpy(array: np.ndarray) -> np.ndarray:
    """The array itself: no copy."""
    return array


if os.environ.get("FX_GUARD_MEMORY"):  # from here on every array is guarded
    from fx.backends.cpu.llvm import allocation

    allocation.allocator()
