"""Saving a Module's values by path and loading them back, with PyTorch's keys and messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fx.config import no_grad
from fx.errors import StateError
from fx.ops.convert import as_tensor
from fx.state import Cell
from fx.tensor import Tensor


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` could not match."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


def _persistent(module: Any) -> dict[str, Any]:
    """Parameters and persistent buffers of one module, without None."""
    unsaved = module._non_persistent_buffers_set
    held = {**module._parameters}
    held.update((k, v) for k, v in module._buffers.items() if k not in unsaved)
    return {name: value for name, value in held.items() if value is not None}


def save(module: Any, prefix: str, keep_vars: bool) -> OrderedDict[str, Tensor]:
    """The values by path; a shared parameter stands under each of its paths."""
    out: OrderedDict[str, Tensor] = OrderedDict()
    values: dict[int, Tensor] = {}  # a shared parameter has one value
    for path, part in module.named_modules(remove_duplicate=False):
        start = f"{prefix}{path}." if path else prefix
        for name, value in _persistent(part).items():
            if not keep_vars and id(value) not in values:
                values[id(value)] = value.detach()
            out[start + name] = value if keep_vars else values[id(value)]
    return out


def load(module: Any, state_dict: Any, strict: bool, assign: bool) -> IncompatibleKeys:
    """Rebind what matches; see ``Module.load_state_dict``."""
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    known: set[str] = set()
    missing, errors = [], []
    found: list[tuple[Any, str, Any, Tensor]] = []
    for path, part in module.named_modules(remove_duplicate=False):
        for name, held in _persistent(part).items():
            key = f"{path}.{name}" if path else name
            known.add(key)
            if key not in state_dict:
                missing.append(key)
            elif not isinstance(state_dict[key], Tensor | np.ndarray):
                errors.append(
                    f'While copying the parameter named "{key}", expected fx.Tensor or '
                    f"np.ndarray from checkpoint but received {type(state_dict[key])}"
                )
            else:
                value = as_tensor(state_dict[key])
                if value.shape == held.shape:
                    found.append((part, name, held, value))
                else:
                    errors.append(
                        f"size mismatch for {key}: copying a param with shape {value.shape} from "
                        f"checkpoint, the shape in current model is {held.shape}."
                    )
    unexpected = [key for key in state_dict if key not in known]
    if strict:
        for what, keys in (("Unexpected", unexpected), ("Missing", missing)):
            if keys:
                listed = ", ".join(f'"{key}"' for key in keys)
                errors.insert(0, f"{what} key(s) in state_dict: {listed}. ")
    if errors:
        raise StateError(
            "Error(s) in loading state_dict for {}:\n\t{}".format(
                type(module).__name__, "\n\t".join(errors)
            )
        )
    with no_grad():
        for part, name, held, value in found:
            value = value.detach()
            if not assign and value.dtype != held.dtype:
                value = value.astype(held.dtype)
            if isinstance(held, Cell):
                held.rebind(value)
            else:  # a Module-shaped object of plain tensors
                setattr(part, name, value)
    return IncompatibleKeys(missing, unexpected)
