"""The PyTorch-named methods of Tensor: most are array functions under their own name."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fx.ops.indexing import scattering, searching, selecting
from fx.ops.methods import torch_attributes, torch_methods, torch_shapes
from fx.ops.pointwise import activations, complex_numbers, composed, elementwise, torch_names
from fx.ops.products import chains, linear, matrices, solved
from fx.ops.reductions import (
    counting,
    cumulative,
    norms,
    ordering,
    quantiles,
    reduction,
    sets,
    statistics,
)
from fx.ops.shapes import assembly, broadcasting, manipulation, padding, splitting
from fx.tensor import Tensor

# functions whose first argument is the tensor and whose others are PyTorch's, in its order
_SAME: tuple[tuple[ModuleType, str], ...] = (
    (elementwise, """
        abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan
        atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift
        bitwise_xor ceil conj copysign cos cosh digamma eq erf erfc erfinv exp exp2 expm1 fix floor
        floor_divide fmod ge greater greater_equal gt hypot isfinite isinf isnan le less less_equal
        lgamma log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor lt
        maximum minimum ne neg negative nextafter not_equal positive reciprocal remainder round
        rsqrt sigmoid signbit sin sinh sqrt square tan tanh trunc"""),
    (composed, """
        addcdiv addcmul allclose clamp clip div frac isclose lerp logit nan_to_num xlogy"""),
    (activations, "log_softmax relu softmax"),
    (reduction, "all amax amin aminmax any argmax argmin logsumexp"),
    (statistics, "nanmean nansum"),
    (quantiles, "quantile"),
    (norms, "dist norm"),
    (cumulative, "cummax cummin cumprod cumsum logcumsumexp"),
    (ordering, "argsort kthvalue mode topk"),
    (searching, "argwhere"),
    (sets, "unique"),
    (broadcasting, "broadcast_to"),
    (manipulation, "flatten moveaxis movedim ravel rot90 unflatten unsqueeze"),
    (splitting, "chunk narrow split tensor_split unbind"),
    (padding, "unfold"),
    (selecting, "index_add index_copy index_fill index_select masked_fill masked_select"),
    (scattering, "gather scatter scatter_add scatter_reduce"),
    (linear, "bmm dot inner kron matmul mm mv outer vdot"),
    (matrices, "addmm addmv baddbmm cross diagonal trace"),
    (assembly, """
        diag_embed diagflat diagonal_scatter dsplit fliplr flipud hsplit select_scatter
        slice_scatter vsplit"""),
    (counting, """
        bincount corrcoef cov histc histogram nanmedian nanquantile unique_consecutive"""),
    (complex_numbers, "angle conj_physical isreal"),
    (chains, "addbmm addr matrix_power"),
    (solved, """
        cholesky cholesky_inverse cholesky_solve det inverse logdet lu_solve slogdet
        triangular_solve"""),
    (torch_names, """
        deg2rad float_power fmax fmin gcd hardshrink heaviside is_nonzero isneginf isposinf lcm
        ldexp logaddexp2 mvlgamma rad2deg renorm sinc"""),
)  # fmt: skip

_RENAMED: dict[str, Any] = {
    "subtract": torch_methods.sub,
    "mul": elementwise.multiply,
    "multiply": elementwise.multiply,
    "divide": composed.div,
    "true_divide": elementwise.divide,
    "equal": composed.array_equal,
    "mean": statistics.mean_of,
    "ger": linear.outer,
    "reshape_as": torch_shapes.view_as,
    "__round__": elementwise.round,
    "__floor__": elementwise.floor,
    "__ceil__": elementwise.ceil,
    "__trunc__": elementwise.trunc,
}


def attach() -> None:
    """Put the methods on Tensor."""
    for module, names in _SAME:
        for name in names.split():
            setattr(Tensor, name, getattr(module, name))
    for name, function in _RENAMED.items():
        setattr(Tensor, name, function)
    for module in (torch_methods, torch_shapes):
        for name in module.METHODS.split():
            setattr(Tensor, name, getattr(module, name))
    torch_attributes.attach()
