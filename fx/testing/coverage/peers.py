"""The lists of names, made of the peers: their public functions, no classes and no constants.

Of ``torch.distributed`` these too, and those of the modules below it, which scripts import.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pkgutil import iter_modules
from textwrap import fill
from types import ModuleType
from typing import Any, TypeVar

from fx.testing.coverage.rows import LISTS, NAMES, read_lists

_JAX_SCIPY = "special linalg fft signal stats integrate ndimage optimize"


def _functions(found: Any, prefix: str = "") -> list[str]:
    """Public callables of a module or class; no classes, and nothing of ``typing``."""
    return [
        prefix + name
        for name in dir(found)
        if not name.startswith("_")
        and callable(value := getattr(found, name, None))
        and not inspect.isclass(value)
        and type(value).__module__ != "typing"
    ]


# rooms that no program imports: tools of their own, and those of other launchers
_TOOLS = re.compile(
    r"\._|\.(flight_recorder|distributed\.debug$|jit|templates|etcd)|\.handlers$|subprocess_handler"
)
_ENTERED = ["torch.distributed._composable", "torch.distributed._functional_collectives"]


def _below(package: str, title: str) -> list[str]:
    """The modules of a package, without those of packages that have a list of their own."""
    found = [package]
    for _, name, is_package in iter_modules(import_module(package).__path__, f"{package}."):
        listed = name in LISTS and name != title
        tool = _TOOLS.search(name.removeprefix("torch.distributed._composable"))
        if listed or (tool and name not in _ENTERED):
            continue
        try:
            found += _below(name, title) if is_package else [name]
        except ImportError:  # it needs what is not installed
            continue
    return found


def _names_of_ranks(name: str) -> list[str]:
    """The public names of a module: ``__all__``, or what it defines."""
    module = import_module(name)
    homes = (name, *([f"{name}.", "torch._C._distributed"] if hasattr(module, "__path__") else []))
    told = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and not isinstance(value, ModuleType)
        and any(str(getattr(value, "__module__", "")).startswith(home) for home in homes)
    ]
    return [k for k in told if not isinstance(getattr(module, k, None), ModuleType | TypeVar)]


def _of_ranks(title: str) -> list[str]:
    """The names of a package of ``torch.distributed`` and of the modules below it."""
    out = []
    for module in _below(title, title):
        try:
            names = _names_of_ranks(module)
        except ImportError:  # it needs what is not installed
            continue
        out += [f"{module}.{name}".removeprefix(f"{title}.") for name in names]
    return sorted(set(out))


def names_of(title: str) -> list[str] | None:
    """The names of a list; None where there is no peer to ask: the standard is a text."""
    if title.startswith("Array API"):
        return None
    if title == "jax.scipy":
        rooms = _JAX_SCIPY.split()
        each = [_functions(import_module(f"{title}.{room}"), f"{room}.") for room in rooms]
        return [name for names in each for name in names]
    if title.startswith("torch.distributed"):
        return _of_ranks(title)
    home, _, last = title.rpartition(".")
    found = getattr(import_module(home), last) if last == "Tensor" else import_module(title)
    return _functions(found)


def write_lists() -> None:
    """Make ``names.txt`` anew; the list of a peer that is not installed stays as it is."""
    known = read_lists()
    for title in LISTS:
        try:
            names = names_of(title)
        except ImportError:
            continue
        if names is not None:
            known[title] = sorted(names)
    text = [f"[{title}]\n{fill(' '.join(known[title]), 100)}\n" for title in LISTS]
    NAMES.write_text("\n".join(text))
