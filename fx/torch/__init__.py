"""PyTorch's names for fx: an existing script runs with only its import lines changed.

``import fx.torch as torch`` gives the functions of ``torch`` with its arguments and defaults;
``torch.nn``, ``torch.optim`` and ``torch.utils.data`` are ``fx.nn``, ``fx.optim`` and ``fx.data``
themselves. There are names here and no mechanisms: the table in ``_table.py`` says which method
each function calls.
"""

# ruff: noqa: E402, I001 - the finder of aliases stands before what it finds

from __future__ import annotations

from difflib import get_close_matches as _get_close_matches
from typing import Any as _Any

from fx.torch import _aliases

_aliases.install()

import fx as _fx
from fx import writing as _writing
from fx import (
    Generator,
    Tensor,
    device,
    e,
    enable_grad,
    from_dlpack,
    get_num_threads,
    get_rng_state,
    inf,
    inference_mode,
    initial_seed,
    is_grad_enabled,
    is_inference_mode_enabled,
    manual_seed,
    nan,
    newaxis,
    no_grad,
    pi,
    seed,
    set_default_device,
    set_default_dtype,
    set_grad_enabled,
    set_num_threads,
    set_printoptions,
    set_rng_state,
)
from fx.random.generator import default_generator

_writing.enable()

from fx.torch._functions import FUNCTIONS as _FUNCTIONS, sharing as _sharing

globals().update(_FUNCTIONS)

from fx.torch import _creation, _extras, _table

for _room in (_extras, _creation):
    globals().update({_name: _sharing(getattr(_room, _name)) for _name in _room.__all__})

from fx.amp import (
    autocast,
    GradScaler,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from fx.torch._settings import (
    are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi,
    get_float32_matmul_precision,
    get_num_interop_threads,
    is_anomaly_enabled,
    is_warn_always_enabled,
    set_anomaly_enabled,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_warn_always,
    use_deterministic_algorithms,
)
from fx.torch._types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    channels_last,
    channels_last_3d,
    CharTensor,
    contiguous_format,
    DoubleTensor,
    dtype,
    FloatTensor,
    HalfTensor,
    IntTensor,
    layout,
    LongTensor,
    memory_format,
    preserve_format,
    ShortTensor,
    Size,
    strided,
)
from fx.seen import TORCH as _DTYPES
from fx.torch import _methods, _types, storage as _storage
from fx.torch.version import __version__
from fx.writing.lending import from_numpy

OutOfMemoryError = MemoryError  # what a script catches when there is no memory left

_methods.install()
_types.install()
_storage.install()
is_storage, UntypedStorage, TypedStorage = (
    _storage.is_storage, _storage.UntypedStorage, _storage.TypedStorage,
)  # fmt: skip
bool = _DTYPES[_fx.bool]
uint8, uint16, uint32, uint64 = (
    _DTYPES[_d] for _d in (_fx.uint8, _fx.uint16, _fx.uint32, _fx.uint64)
)
int8, int16, int32, int64 = (_DTYPES[_d] for _d in (_fx.int8, _fx.int16, _fx.int32, _fx.int64))
float16, bfloat16, float32, float64 = (
    _DTYPES[_d] for _d in (_fx.float16, _fx.bfloat16, _fx.float32, _fx.float64)
)
complex64, complex128 = _DTYPES[_fx.complex64], _DTYPES[_fx.complex128]
half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128

from fx.torch import _absent, autograd, backends, cuda, nn, utils

nn.functional.__getattr__ = _absent.refusing("nn.functional")

# what loads when it is first asked for ----------------------------------------------------------

_ROOMS = frozenset(
    [
        "accelerator",
        "amp",
        "compiler",
        "distributed",
        "distributions",
        "fft",
        "export",
        "func",
        "futures",
        "hub",
        "jit",
        "linalg",
        "masked",
        "mps",
        "multiprocessing",
        "onnx",
        "ops",
        "optim",
        "profiler",
        "random",
        "serialization",
        "signal",
        "sparse",
        "special",
        "testing",
        "version",
        "xpu",
    ]
)
_WINDOWS = [f"{_name}_window" for _name in ["bartlett", "blackman", "hamming", "hann", "kaiser"]]
_OF_ROOMS = {
    "_factors": """
        frobenius_norm geqrf lobpcg lu lu_unpack norm_except_dim nuclear_norm orgqr ormqr
        pca_lowrank pinverse qr svd svd_lowrank""",
    "_numbered": """
        affine_grid_generator alpha_dropout_ binary_cross_entropy_with_logits convolution
        cosine_embedding_loss ctc_loss dropout_ embedding_bag feature_alpha_dropout_
        feature_dropout feature_dropout_ grid_sampler grid_sampler_2d grid_sampler_3d
        hinge_embedding_loss instance_norm kl_div margin_ranking_loss native_batch_norm
        native_dropout native_group_norm native_layer_norm poisson_nll_loss triplet_margin_loss""",
    "_recurrent": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
    "_copies": """
        alias_copy as_strided_copy as_strided_scatter detach_copy diagonal_copy expand_copy
        narrow_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy
        squeeze_copy t_copy transpose_copy unbind_copy unsqueeze_copy view_as_complex_copy
        view_as_real_copy view_copy""",
    "_rare": """
        binomial empty_permuted frexp histogramdd is_distributed nonzero_static segment_reduce
        sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite
        sym_max sym_min sym_not sym_sqrt sym_sum to_dlpack""",
    "_settings": """
        autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
        get_autocast_cpu_dtype get_autocast_gpu_dtype get_deterministic_debug_mode
        init_num_threads is_anomaly_check_nan_enabled is_autocast_cache_enabled
        is_autocast_cpu_enabled is_deterministic_algorithms_warn_only_enabled is_vulkan_available
        set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
        set_autocast_gpu_dtype set_deterministic_debug_mode""",
}
_LAZY = {
    "compile": "fx.torch.compiler",
    **dict.fromkeys(("i0", "igamma", "igammac", "polygamma"), "fx.torch.special"),
    "istft": "fx.signal",
    "load": "fx.io",
    "save": "fx.io",
    "stft": "fx.signal",
    "vmap": "fx.torch.func",
    "matrix_exp": "fx.linalg",
    **{_n: f"fx.torch.{_room}" for _room, _names in _OF_ROOMS.items() for _n in _names.split()},
    **dict.fromkeys(_WINDOWS, "fx.torch._windows"),
}
_OF_NN = frozenset(_table.OF_NN.split())


def __getattr__(name: str) -> _Any:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"fx.torch.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name in _OF_NN and hasattr(nn.functional, name):
        return getattr(nn.functional, name)
    if name.startswith("_foreach_") and name in (room := import_module("fx.torch._foreach")).NAMES:
        return room.function_of(name)
    if name.startswith("__"):
        raise AttributeError(f"module 'fx.torch' has no attribute {name!r}")
    advice = _absent.reason(name)
    if name.endswith("_") and (found := _writing.function_of(name)) is not None:
        return found
    if advice is None and name.endswith("_") and (name[:-1] in globals() or name[:-1] in _OF_NN):
        advice = (
            f"it would change a tensor, and tensors never change; write x = torch.{name[:-1]}(x)"
        )
    if advice is None:
        near = [n for n in ("nn.functional." + name, "linalg." + name) if _exists(n)]
        near = near or _get_close_matches(name, __dir__(), 1, 0.75)
        advice = f"write torch.{near[0]}" if near else "dir(torch) lists what there is"
    raise AttributeError(f"fx has no torch.{name}: {advice}")


def _exists(path: str) -> _fx.bool:
    found: _Any = nn.functional if path.startswith("nn.") else _linalg()
    return path.rpartition(".")[2] in getattr(found, "__all__", ())


def _linalg() -> _Any:
    """``torch.linalg``, loaded when first asked for."""
    from fx.torch import linalg

    return linalg


def __dir__() -> list[str]:
    rest = {name for name in _OF_NN if hasattr(nn.functional, name)}
    return sorted({*globals(), *_ROOMS, *_LAZY, *rest} - {"_name", "annotations"})
