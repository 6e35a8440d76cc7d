"""Rooms of torch that scripts import and hardly use: their names are there, and refuse when called.

``from torch.profiler import profile`` at the top of a script must not stop it; ``with profile():``
says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from fx.torch import _absent_distributed as _distributed

ROOMS = {
    "onnx": (
        "save the weights with torch.save(model.state_dict(), path)",
        "export dynamo_export ExportOptions ONNXProgram OperatorExportTypes TrainingMode",
    ),
    "hub": (
        "load a checkpoint file with torch.load(path)",
        "load list help load_state_dict_from_url download_url_to_file get_dir set_dir",
    ),
    "profiler": (
        "use Python's cProfile, or f.explain() of a jitted function",
        "profile schedule tensorboard_trace_handler supported_activities ProfilerActivity "
        "ProfilerAction record_function",
    ),
    "export": (
        "save the weights with torch.save(model.state_dict(), path)",
        "export Dim ExportedProgram save load register_dataclass",
    ),
    "sparse": (
        "tensors are dense",
        "mm addmm sampled_addmm sum softmax log_softmax spdiags",
    ),
    "serialization": (
        "torch.load reads tensors and plain containers only, and needs no list of what is safe",
        "add_safe_globals clear_safe_globals get_safe_globals safe_globals register_package "
        "skip_data",
    ),
}  # fmt: skip
_DISTRIBUTED = "distributed"


class Absent:
    """A function or class that fx does not have: it may be imported, named and passed on."""

    def __init__(self, room: str, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._room = room

    def _refuse(self) -> Any:
        raise NotImplementedError(
            f"fx has no torch.{self._room}.{self.__name__}: {_room(self._room)[0]}"
        )

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return Absent(self._room, f"{self.__name__}.{name}")

    def __repr__(self) -> str:
        return f"<torch.{self._room}.{self.__name__}, which fx does not have>"


class Rooms(Loader):
    """Makes the module of a room."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the names into it."""
        room = module.__name__.removeprefix("fx.torch.")
        advice, names = _room(room) or ("", "")
        module.__doc__ = f"``torch.{room}``: not there; {advice}."
        space: dict[str, Any] = {name: Absent(room, name) for name in names.split()}
        if room == "serialization":
            from fx.io import load, save

            space |= {"load": load, "save": save}
        if room == "onnx":
            space["is_in_onnx_export"] = lambda: False

        def missing(name: str) -> Any:
            raise AttributeError(f"fx has no torch.{room}.{name}: {advice}")

        module.__dict__.update(space, __getattr__=missing)


def room_spec(name: str) -> ModuleSpec | None:
    """The spec of ``fx.torch.onnx`` and the like; None for every other module."""
    found = _room(name.removeprefix("fx.torch."))
    return None if found is None else ModuleSpec(name, Rooms(), is_package=True)


def _room(name: str) -> tuple[str, str] | None:
    """What to do instead of a room, and its names."""
    top, _, below = name.partition(".")
    if top != _DISTRIBUTED:
        return ROOMS.get(name)
    inner = [room for room in _distributed.ROOMS if f"{room}.".startswith(f"{below}.")]
    if not inner or below in ("", "elastic"):
        return None
    return reason("", name) or "", _distributed.ROOMS.get(below, "")


# names of torch itself: a word for each kind, and for those that stand alone ----------------------

KINDS = (
    (r"^(cudnn|miopen|mkldnn|fbgemm|profiler_allow_cudagraph)_|_mkldnn$|^(is_maia|is_mtia|record_stream)$",
     "vendor", "it is the call of one vendor's library; write the function of torch.nn.functional"),
    (r"quant|^int_repr$|^q_|qparams|^qscheme$|^(scaled_mm|scaled_grouped_mm)$",
     "quantised", "there are no quantised tensors; compute in float32 or bfloat16"),
    (r"sparse|^(smm|dsmm|hsmm|spmm|hspmm|saddmm|sspaddmm)$|^c?(row|col)_?indices|^(crow|ccol|row|col)_indices"
     r"|^(in)?dices(_copy)?$|^values(_copy)?$|coalesce|^dense_dim$|^to_padded_tensor$",
     "sparse", "there are no sparse tensors; write x.to_dense() before, or multiply by a mask"),
    (r"^(eig|symeig|solve|lstsq|matrix_rank)$",
     "removed", "PyTorch has removed it, and raises; write torch.linalg's"),
    (r"^(reinforce|volatile)$", "removed", "PyTorch has removed it, and raises"),
    (r"^batch_norm_|^native_norm$|_(ipu|xla)_|^(sym|is)_.*_(ipu|xla)|^hash_tensor$",
     "device", "it is for devices that fx has not; write F.batch_norm, torch.norm, torch.autocast"),
    (r"^(classproperty|fork|wait|get_file_path|import_ir_module.*|merge_type_from_type_comment"
     r"|parse_(ir|schema|type_comment)|prepare_multiprocessing_environment|thread_safe_generator"
     r"|unify_type_list|slice_inverse|module_load|fused_moving_avg_obs.*|storage_type|const_data_ptr"
     r"|as_subclass|grad_dtype|dim_order|get_device_module"
     r"|boolean_dispatch|assert_int_or_pair|handle_torch_function|has_torch_function.*)$",
     "internal", "it serves PyTorch's own code, not programs"),
)  # fmt: skip
ALONE = {
    "from_file": "write torch.from_numpy(numpy.memmap(...))",
    "embedding_renorm_": "write F.embedding(x, weight, max_norm=...)",
    "chalf": "there are no complex numbers of 16 bits",
    **dict.fromkeys(
        ("MaskedTensor", "masked_tensor", "as_masked_tensor", "is_masked_tensor"),
        "keep values and mask apart, and pass mask= to the functions of torch.masked",
    ),
    "name": "tensors have no name; a Module's parameters do: module.named_parameters()",
    "resize": "write x.reshape(...) or torch.nn.functional.pad",
    "resize_as": "write x.reshape(...) or torch.nn.functional.pad",
    "index": "PyTorch has no such method of plain tensors; write x[...]",
}


def kind_of(name: str, room: str = "") -> tuple[str | None, str] | None:
    """Which kind of absent names one of torch, or of a room, is of, and what to do.

    The kind is None where a name stands alone; None if nothing is known.
    """
    top, _, below = room.partition(".")
    if top == _DISTRIBUTED:
        name = f"{below}.{name}".lstrip(".")
        return next((row[1:] for row in _distributed.KINDS if re.search(row[0], name)), None)
    if name in ALONE:
        return None, ALONE[name]
    return next((row[1:] for row in KINDS if re.search(row[0], name)), None)


def reason(name: str, room: str = "") -> str | None:
    """Why fx lacks a name of torch, or of a room, or what to write in its place."""
    found = kind_of(name, room)
    return None if found is None else found[1]


def refusing(room: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module of PyTorch's names: why it lacks one that is asked for."""

    def missing(name: str) -> Any:
        why = None if name.startswith("__") else reason(name, room)
        why = why or f"dir(torch.{room}) lists what there is"
        raise AttributeError(f"fx has no torch.{room}.{name}: {why}")

    return missing
