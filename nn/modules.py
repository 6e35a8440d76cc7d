"""``nn.modules``: the places where PyTorch keeps its layers, as names of those here.

Scripts write ``isinstance(m, nn.modules.batchnorm._BatchNorm)`` or ``nn.modules.utils._pair(x)``.
The real homes are the rooms of ``fx.nn``; each place loads them when it is first asked for a name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec
from itertools import repeat
from types import ModuleType
from typing import Any

# PyTorch's place -> the files of fx.nn that hold what it has
_HOMES = {
    "activation": ("layers.activation", "layers.rectifiers", "sequences.attention"),
    "adaptive": ("losses.adaptive",),
    "batchnorm": ("layers.normalization", "layers.instance_norms", "layers.lazy"),
    "channelshuffle": ("layers.fold",),
    "container": ("base.containers", "base.parameter_containers"),
    "conv": ("layers.conv", "layers.lazy"),
    "distance": ("layers.distance",),
    "dropout": ("layers.dropout",),
    "flatten": ("layers.linear",),
    "fold": ("layers.fold",),
    "instancenorm": ("layers.instance_norms", "layers.lazy"),
    "lazy": ("layers.lazy",),
    "linear": ("layers.linear", "layers.lazy"),
    "linear_cross_entropy_options": ("functional.linear_cross_entropy",),
    "loss": ("losses.loss", "losses.margin_losses", "losses.probability_losses"),
    "module": ("base.module",),
    "normalization": ("layers.normalization", "layers.instance_norms"),
    "padding": ("layers.padding",),
    "pixelshuffle": ("layers.fold",),
    "pooling": ("layers.pooling", "layers.adaptive_pooling", "layers.unpooling"),
    "rnn": ("sequences.rnn", "sequences.rnn_base", "sequences.rnn_cells"),
    "sparse": ("layers.sparse", "layers.embedding_bag"),
    "transformer": ("sequences.transformer", "sequences.transformer_layers"),
    "upsampling": ("layers.upsampling",),
    "utils": (),
}
# names of PyTorch's base classes that are others here
_OTHERWISE = {
    ("conv", "_ConvNd"): "_Convolution",
    ("conv", "_ConvTransposeNd"): "_ConvTranspose",
    ("dropout", "_DropoutNd"): "_Dropout",
    ("pooling", "_MaxPoolNd"): "_MaxPool",
    ("pooling", "_AdaptiveAvgPoolNd"): "_AdaptiveAvgPool",
    ("pooling", "_AdaptiveMaxPoolNd"): "_AdaptiveMaxPool",
    ("pooling", "_LPPoolNd"): "_LPPool",
    ("padding", "_ConstantPadNd"): "_ConstantPad",
    ("padding", "_ReflectionPadNd"): "_ReflectionPad",
    ("padding", "_ReplicationPadNd"): "_ReplicationPad",
}


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """What makes a tuple of n out of one value, and leaves several."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, tuple | list) else tuple(repeat(x, n))

    return parse


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix off the names of a state dict, in its order: that of a wrapper of the module.

    Args:
        state_dict: names and values; it is changed.
        prefix: with its dot; names that do not begin with it stay.

    Example:
        >>> from fx.nn.modules.utils import consume_prefix_in_state_dict_if_present
        >>> state = {"module.weight": 1, "step": 2}
        >>> consume_prefix_in_state_dict_if_present(state, "module.")
        >>> sorted(state)
        ['step', 'weight']
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    versions = getattr(state_dict, "_metadata", {})  # by module: "" is the wrapper's
    for key in list(versions):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            versions[key[len(prefix) :]] = versions.pop(key)


class _Place(ModuleType):
    """A module that finds its names in the rooms of ``fx.nn``."""

    def __getattr__(self, name: str) -> Any:
        place = self.__name__.rpartition(".")[2]
        wanted = _OTHERWISE.get((place, name), name)
        for home in _HOMES[place] if not name.startswith("__") else ():
            found = getattr(import_module(f"fx.nn.{home}"), wanted, None)
            if found is not None:
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")


for _name in _HOMES:
    _place = _Place(f"{__name__}.{_name}", f"Names of ``torch.nn.modules.{_name}``.")
    _place.__spec__ = ModuleSpec(_place.__name__, None)  # so that import statements find it
    sys.modules[_place.__name__] = globals()[_name] = _place

_utils = sys.modules[f"{__name__}.utils"]
_utils._ntuple = _ntuple  # type: ignore[attr-defined]
_utils.consume_prefix_in_state_dict_if_present = consume_prefix_in_state_dict_if_present  # type: ignore[attr-defined]
for _count, _word in enumerate(("_single", "_pair", "_triple", "_quadruple"), 1):
    setattr(_utils, _word, _ntuple(_count))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("fx.nn"), name)
