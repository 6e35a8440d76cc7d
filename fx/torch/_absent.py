"""Rooms of torch that scripts import and hardly use: their names are there, and refuse when called.

``from torch.profiler import profile`` at the top of a script must not stop it; ``with profile():``
says what to write instead.
"""

from __future__ import annotations

from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

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


class Absent:
    """A function or class that fx does not have: it may be imported, named and passed on."""

    def __init__(self, room: str, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._room = room

    def _refuse(self) -> Any:
        raise NotImplementedError(
            f"fx has no torch.{self._room}.{self.__name__}: {ROOMS[self._room][0]}"
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
        room = module.__name__.rpartition(".")[2]
        advice, names = ROOMS[room]
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
    top, _, room = name.rpartition(".")
    return ModuleSpec(name, Rooms()) if top == "fx.torch" and room in ROOMS else None
