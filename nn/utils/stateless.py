"""``functional_call`` as PyTorch has it: what forward does to the module stays.

The call runs on a copy around the given values, as that of ``fx.nn`` does, so that nothing has to
be put back. Buffers that are not given are the module's own. What forward wrote into buffers that
are, and what it did to attributes, is carried over after the call.
"""

from __future__ import annotations

from typing import Any

from fx.config import writing
from fx.nn.base.module import Module
from fx.nn.base.skeleton import called, merged, with_values

_HELD = frozenset(["_parameters", "_buffers", "_modules", "_ties"])


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a Module with other parameters and buffers; see ``fx.nn.functional_call``.

    What its forward does besides is done to the module: it writes buffers that are not given, and,
    where ``fx.torch`` is imported, into the tensors of those that are; attributes that it assigns
    are those of the module.

    Example:
        >>> import fx.torch as torch
        >>> norm = torch.nn.BatchNorm1d(1)
        >>> params = {k: v * 2 for k, v in norm.named_parameters()}
        >>> out = torch.func.functional_call(norm, params, torch.tensor([[1.0], [3.0]]))
        >>> norm.running_mean, norm.num_batches_tracked
        (tensor([0.2000]), tensor(1))
    """
    given = merged(parameter_and_buffer_dicts)
    copy = with_values(module, given, tie_weights, strict, own_buffers=True)
    pairs = list(zip(module.modules(), copy.modules(), strict=True))
    before = [{k: (v, _parts(v)) for k, v in twin.__dict__.items()} for _, twin in pairs]
    buffers = dict(copy.named_buffers(remove_duplicate=False))
    made = [(x, buffers[k]) for k, x in given.items() if k in buffers and x is not buffers[k]]
    held = [buffer.value for _, buffer in made]
    out = called(copy, args, kwargs)
    if writing.enabled:  # else tensors never change
        for (x, buffer), value in zip(made, held, strict=True):
            if buffer.value is not value:
                writing.copy(x, buffer.value)
    originals = {id(twin): owner for owner, twin in pairs}
    for (owner, twin), was in zip(pairs, before, strict=True):
        _carry(owner, twin.__dict__, was, originals)
    return out


def _parts(value: Any) -> list[Any] | None:
    """What a list, dict or set holds, of which a copy of a module has one of its own."""
    if type(value) is dict:
        return [*value, *value.values()]
    return list(value) if type(value) in (list, set) else None


def _carry(owner: Module, now: Any, before: dict[str, Any], originals: dict[int, Any]) -> None:
    """Do to a module what was done to the attributes of its copy.

    Args:
        now: the attributes of the copy.
        before: what they were before the call, and what was in those that hold others.
        originals: the modules by the ids of their copies.
    """
    for name in [k for k in before if k not in now]:
        delattr(owner, name)
    for name, value in [(k, v) for k, v in now.items() if k not in _HELD]:
        was, parts = before.get(name, (None, None))
        if name not in before or value is not was:
            setattr(owner, name, originals.get(id(value), value))
        elif parts is not None and not _same(parts, _parts(value)):
            own = owner.__dict__[name]
            back = originals | {id(x): y for x, y in zip(parts, _parts(own) or (), strict=True)}
            _fill(own, value, back)


def _same(parts: list[Any], others: Any) -> bool:
    return len(parts) == len(others) and all(x is y for x, y in zip(parts, others, strict=True))


def _fill(own: Any, value: Any, back: dict[int, Any]) -> None:
    """Let a list, dict or set hold what another does, each thing as the owner has it."""
    if type(own) is dict:
        items = {back.get(id(k), k): back.get(id(v), v) for k, v in value.items()}
    else:
        items = [back.get(id(v), v) for v in value]  # type: ignore[assignment]
    own.clear()
    own.extend(items) if type(own) is list else own.update(items)
