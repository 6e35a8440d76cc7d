"""What the names in a file mean: PyTorch's and NumPy's ways to write tensors, arrays and data.

A name that is not in the table is refused, unless the user has declared it safe
(``add_safe_globals``). Nothing is ever imported because a file says so.
"""

from __future__ import annotations

import codecs
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from fx import dtypes
from fx.devices import Device, backend
from fx.errors import FileFormatError
from fx.io.machine import Machine
from fx.io.makers import Maker, Trusted
from fx.io.numpy_words import NUMPY, check_dtype_state, fill_array
from fx.io.storages import (
    STORAGE_DTYPES,
    UNTYPED,
    Later,
    Storage,
    StorageType,
    leaf,
    sizes,
    view,
)
from fx.io.trust import trusted
from fx.seen import TORCH, Size, TorchDType, face
from fx.spec import TensorSpec
from fx.tensor import Tensor, new_tensor

_FACTORIES = {
    kind.__name__: kind
    for kind in (list, dict, set, int, float, str, tuple, bool, OrderedDict, Counter)
}
_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


# the words of one file --------------------------------------------------------------------------


class Vocabulary:
    """The meaning of names and persistent ids while one file is read.

    Args:
        load_storage: makes the storage of a persistent id.
        later: is told what has to wait until the memory of the storages is read.
    """

    def __init__(self, load_storage: Callable[[Any], Storage], later: Later) -> None:
        self.storage = load_storage
        self.later = later
        rebuild = {
            "_rebuild_tensor": self._tensor,
            "_rebuild_tensor_v2": self._tensor,
            "_rebuild_tensor_v3": self._tensor_of_dtype,
            "_rebuild_parameter": self._parameter,
            "_rebuild_parameter_with_state": self._parameter,
            "_rebuild_meta_tensor_no_storage": _meta_tensor,
        }
        self.own: dict[Any, Any] = {
            ("torch._utils", k): Maker(f"torch._utils.{k}", v) for k, v in rebuild.items()
        }
        self.own["torch.nn.parameter", "Parameter"] = Maker(
            "torch.nn.parameter.Parameter", self._parameter
        )
        if face() == "torch":
            self.own |= {("torch", plain.name): seen for plain, seen in TORCH.items()}
            self.own["torch", "Size"] = Maker("torch.Size", lambda items=(): Size(_size(items)))

    def torch_name(self, module: str, name: str) -> Any:
        """What a name of PyTorch's stands for; None if it is not known."""
        found = self.own.get((module, name), _NAMES.get((module, name)))
        if found is None and module.startswith("torch") and name.endswith("Storage"):
            dtype = UNTYPED if name == "UntypedStorage" else STORAGE_DTYPES.get(name)
            found = dtype and StorageType(dtype)
        return found

    def find(self, module: str, name: str) -> Any:
        """What a name stands for.

        Raises:
            FileFormatError: for one that is not allowed, with what to write instead.
        """
        module = _PYTHON_2.get(module, module)
        found = self.torch_name(module, name)
        if found is None:
            full = f"{module}.{name}"
            if full not in trusted:
                raise FileFormatError(refusal(module, name))
            found = Trusted(trusted[full])
        return found

    def fill(self, target: Any, state: Any) -> None:
        """Give an array or a trusted object its state."""
        if type(target) is np.ndarray:
            fill_array(target, state)
        elif isinstance(target, np.dtype):
            check_dtype_state(target, state)
        elif any(type(target) is kind for kind in trusted.values()):
            _fill_object(target, state)
        else:
            raise FileFormatError(f"the pickle fills {type(target).__name__}, which is not allowed")

    # tensors ------------------------------------------------------------------------------------

    def _tensor(
        self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any = False,
        hooks: Any = None, metadata: Any = None,
    ) -> Tensor:  # fmt: skip
        return leaf(view(storage, offset, size, stride, None, metadata, self.later), requires_grad)

    def _tensor_of_dtype(
        self, storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
        dtype: Any, metadata: Any = None,
    ) -> Tensor:  # fmt: skip
        known = dtype.dtype if type(dtype) is TorchDType else dtype
        if not isinstance(known, np.dtype):
            raise FileFormatError("a tensor whose dtype is none")
        return leaf(view(storage, offset, size, stride, known, metadata, self.later), requires_grad)

    def _parameter(
        self, data: Any, requires_grad: Any = True, hooks: Any = None, state: Any = None
    ) -> Any:
        from fx.nn.parameter import Parameter

        if not isinstance(data, Tensor):
            raise FileFormatError(f"a Parameter of {type(data).__name__}, which is no tensor")
        made = Parameter(data.detach(), requires_grad is True)
        if id(data) in self.later.places:
            self.later.place(made.read(), self.later.places[id(data)][1])
        return made


def refusal(module: str, name: str) -> str:
    """Why a name is refused, and what to write."""
    why = _UNKNOWN_KINDS.get(name)
    if (
        why is None
        and name.startswith(("float8", "float4", "complex32", "q"))
        and module == "torch"
    ):
        why = f"fx has no dtype like torch.{name}; convert the tensor before it is saved"
    if why is not None:
        return f"the file holds {module}.{name}: {why}"
    return (
        f"the file asks for {module}.{name}, which is neither a tensor nor a plain container. If "
        f"you trust who made the file, write fx.load(f, weights_only=False), which lets it run any "
        f"code, or fx.io.add_safe_globals([{name}]) to allow this name alone"
    )


_SPARSE = "fx has no sparse tensors; save x.to_dense()"
_UNKNOWN_KINDS = {
    "_rebuild_sparse_tensor": _SPARSE,
    "_rebuild_nested_tensor": "fx has no nested tensors; save a padded tensor or a list",
    "_rebuild_qtensor": "fx has no quantised tensors; save x.dequantize()",
    "QInt8Storage": "fx has no quantised tensors; save x.dequantize()",
    "QUInt8Storage": "fx has no quantised tensors; save x.dequantize()",
    "QInt32Storage": "fx has no quantised tensors; save x.dequantize()",
}


def _meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    dtype = dtype.dtype if type(dtype) is TorchDType else dtype
    if not isinstance(dtype, np.dtype) or type(size) not in (tuple, Size):
        raise FileFormatError("a meta tensor without dtype and shape")
    backend("meta")
    return leaf(new_tensor(TensorSpec(sizes("size", size), dtype, "meta")), requires_grad)


def _of_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    known = type(function) is Maker and function.name.startswith("torch._utils.")
    if not known or type(kind) is not Maker or type(args) is not tuple:
        raise FileFormatError("a tensor of a class that is not known")
    return function.make(*args)


def _refuse_call(name: str) -> Maker:
    def refuse(*args: Any) -> Any:
        raise FileFormatError(f"the file calls {name} in a way that plain data does not need")

    return Maker(name, refuse)


# Python's containers ----------------------------------------------------------------------------


def _mapping(kind: type) -> Callable[..., Any]:
    def make(machine: Machine, items: Any = ()) -> Any:
        if isinstance(items, dict):
            return kind(items)
        if type(items) not in (list, tuple):
            raise ValueError(f"{kind.__name__} of {type(items).__name__}")
        machine.check_keys(kind(), [key for key, _ in items])
        return kind(dict(items))

    return make


def _members(kind: type) -> Callable[..., Any]:
    def make(machine: Machine, items: Any = ()) -> Any:
        if type(items) not in (list, tuple):
            raise ValueError(f"{kind.__name__} of {type(items).__name__}")
        machine.check_keys(kind(), items)
        return kind(items)

    return make


def _defaultdict(factory: Any = None) -> Any:
    name = factory.name.rpartition(".")[2] if type(factory) is Maker else None
    if factory is not None and name not in _FACTORIES:
        raise ValueError("a defaultdict of a factory that is not known")
    return defaultdict(None if name is None else _FACTORIES[name])


def _deque(items: Any = (), most: Any = None) -> Any:
    if type(items) not in (list, tuple) or not (most is None or type(most) is int):
        raise ValueError("a deque of something else than items and a length")
    return deque(items, most)


def _size(items: Any = ()) -> tuple[int, ...]:
    if type(items) not in (list, tuple) or any(type(n) is not int for n in items):
        raise ValueError("a torch.Size of something else than integers")
    return tuple(items)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes in an encoding that pickles do not use")
    return codecs.encode(text, "latin1")


def _bytearray(data: Any = b"", encoding: Any = None) -> bytearray:
    if type(data) is str:
        return bytearray(_encode(data, encoding))
    if type(data) is not bytes:
        raise ValueError("a bytearray of something else than bytes")
    return bytearray(data)


def _bytes(data: Any = b"") -> bytes:
    if type(data) is not bytes:
        raise ValueError("bytes of something else")
    return data


def _complex(real: Any = 0.0, imag: Any = 0.0) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise ValueError("a complex number of something else than numbers")
    return complex(real, imag)


def _device(kind: Any, index: Any = None) -> Any:
    if type(kind) is not str or not (index is None or type(index) is int):
        raise ValueError("a device without a name")
    if kind.partition(":")[0] in ("cpu", "meta"):
        return Device(kind)
    return kind if index is None else f"{kind}:{index}"  # a device that is not here: its name


def _fill_object(target: Any, state: Any) -> None:
    """What pickle does with the state of an object."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    slots = None
    if type(state) is tuple and len(state) == 2:
        state, slots = state
    vars(target).update(state or {})
    for name, value in (slots or {}).items():
        setattr(target, name, value)


_KEYED: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _mapping(OrderedDict),
    "collections.Counter": _mapping(Counter),
    "builtins.set": _members(set),
    "builtins.frozenset": _members(frozenset),
}
_MAKERS: dict[str, Callable[..., Any]] = {
    "collections.defaultdict": _defaultdict,
    "collections.deque": _deque,
    "builtins.complex": _complex,
    "builtins.bytearray": _bytearray,
    "builtins.bytes": _bytes,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch.device": _device,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    **NUMPY,
}
_ONLY_NAMES = (
    "numpy.ndarray", "ml_dtypes.bfloat16", "torch.Tensor", "torch._tensor.Tensor",
    "torch.nn.parameter.Buffer",
    *(f"builtins.{name}" for name in ("list", "dict", "int", "float", "str", "tuple", "bool")),
)  # fmt: skip
_NAMES: dict[tuple[str, str], Any] = {
    tuple(full.rsplit(".", 1)): Maker(full, make)  # type: ignore[misc]
    for full, make in _MAKERS.items()
} | {tuple(full.rsplit(".", 1)): _refuse_call(full) for full in _ONLY_NAMES}
_NAMES |= {tuple(full.rsplit(".", 1)): Maker(full, make, True) for full, make in _KEYED.items()}
_NAMES |= {("torch", dtype.name): dtype for dtype in dtypes.ALL}
