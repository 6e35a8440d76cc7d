"""fx: immutable tensors, pure primitives, and the transforms grad, jvp and vmap.

``import fx`` has the Python Array API's functions and JAX's transforms; ``fx.nn``, ``fx.optim`` and
``fx.data`` have PyTorch's names.
"""

# ruff: noqa: E402, I001 - the order of the imports is the order in which the house is built

from fx.devices import backend as _backend

_backend("cpu")

from fx import frames as _frames


def _advise(error, trace):
    from fx.keywords import with_right_ones

    with_right_ones(error, trace)


_frames.install(_advise)

# tensors ----------------------------------------------------------------------------------------
from fx.config import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_default_dtype,
    set_grad_enabled,
)
from fx.backends.cpu.threads import get_num_threads, set_num_threads
from fx.devices import Device as device
from fx.devices import register_backend as register_backend
from fx.devices import set_default_device as set_default_device
from fx.dtypes import (
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from fx.dtypes import bool_ as bool
from fx.spec import TensorSpec
from fx.tensor import Tensor

# operators and methods --------------------------------------------------------------------------
from fx.ops import operators as _operators

_operators.attach()

from fx.ops.methods import own as _methods_core

_methods_core.attach()

from fx.ops.methods import table as _methods

_methods.attach()

# array functions --------------------------------------------------------------------------------
from fx._namespace import (
    __array_api_version__,
    __array_namespace_info__,
    can_cast,
    e,
    finfo,
    iinfo,
    inf,
    isdtype,
    nan,
    newaxis,
    pi,
    result_type,
)
from fx.ops.making.creation import (
    empty,
    empty_like,
    full,
    full_like,
    linspace,
    logspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from fx.ops.making.dlpack import from_dlpack
from fx.ops.making.interop import asarray, from_numpy
from fx.ops.methods.own import astype
from fx.ops.making.patterns import diag, eye, meshgrid, tri, tril, triu
from fx.ops.making.ranges import arange
from fx.ops.methods.printing import get_printoptions, set_printoptions
from fx.ops.specs import eval_shape
from fx.ops.pointwise.activations import *
from fx.ops.reductions.cumulative import *
from fx.ops.products.einsum import *
from fx.ops.pointwise.elementwise import *
from fx.ops.shapes.broadcasting import *
from fx.ops.shapes.joining import *
from fx.ops.products.linear import *
from fx.ops.shapes.manipulation import *
from fx.ops.products.matrices import *
from fx.ops.reductions.norms import *
from fx.ops.shapes.padding import *
from fx.ops.shapes.splitting import *
from fx.ops.pointwise.composed import *
from fx.ops.reductions.reduction import *
from fx.ops.indexing.scattering import *
from fx.ops.reductions.ordering import *
from fx.ops.indexing.searching import *
from fx.ops.indexing.selecting import *
from fx.ops.reductions.quantiles import *
from fx.ops.reductions.sets import *
from fx.ops.reductions.statistics import *

# random numbers ---------------------------------------------------------------------------------
from fx import random
from fx.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from fx.random.stateful import rand, rand_like, randint, randint_like, randn, randn_like, randperm
from fx.random.parametrized import bernoulli, multinomial, normal, poisson

# transforms and autograd ------------------------------------------------------------------------
from fx.autograd import methods as _autograd_methods

_autograd_methods.attach()

from fx import handles as _handles
from fx.ops.methods import rebinding as _rebinding

_handles.attach()
_rebinding.attach()

from fx.transforms import *

from fx.graph.staging import make_graph

# names that are also submodules come last -------------------------------------------------------
from fx import autograd, debug, dtypes, errors, tree
from fx.ops.making.interop import tensor

__version__ = "0.1.0"


# what loads when it is first asked for ----------------------------------------------------------
_ROOMS = (
    "fft", "signal", "special", "ndimage", "interpolate", "optimize", "stats", "nn", "optim",
    "data", "io", "lax", "linalg", "distributed", "testing", "torch", "tree_util", "flatten_util",
)  # fmt: skip
_LAZY = {
    "save": "fx.io",
    "load": "fx.io",
    "Checkpoint": "fx.io",
    "SummaryWriter": "fx.io",
    "progress": "fx.io",
    "per_example": "fx.nn.per_example",
    "Mesh": "fx.distributed",
    "P": "fx.distributed",
    "PartitionSpec": "fx.distributed",
    "shard_map": "fx.distributed",
    "pure_callback": "fx.callbacks",
    "io_callback": "fx.callbacks",
    "NamedSharding": "fx.distributed",
    "with_sharding_constraint": "fx.distributed",
}


def __getattr__(name: str):
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"fx.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    from fx.ops.numpy_names import NAMES

    if name in NAMES:
        found = globals()[name] = getattr(import_module(NAMES[name]), name)
        return found
    jax_names = import_module("fx.jax_names")
    if name in jax_names.SAME:
        return jax_names.found(name)
    if name in jax_names.LACKING:
        raise AttributeError(f"module 'fx' has no attribute {name!r}: {jax_names.LACKING[name]}")
    raise AttributeError(f"module 'fx' has no attribute {name!r}{_near(name)}")


def _near(name: str) -> str:
    """What might have been meant."""
    from difflib import get_close_matches

    found = [] if name[:1] == "_" else get_close_matches(name, __dir__(), 3, 0.75)
    return f"; did you mean {' or '.join(f'fx.{n}' for n in found)}?" if found else ""


# modules that users call; all others are the library's own
_PUBLIC = ("autograd", "debug", "dtypes", "errors", "graph", "random", "transforms", "tree")


def __dir__():
    """What users may use: no module of the library's own, nothing private."""
    from types import ModuleType

    own = [n for n, v in globals().items() if n[0] != "_" and not isinstance(v, ModuleType)]
    from fx.ops.numpy_names import NAMES

    return sorted({*own, *_PUBLIC, *_ROOMS, *_LAZY, *NAMES, "__version__"})
