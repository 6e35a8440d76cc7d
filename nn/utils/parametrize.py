"""Parametrizations: a parameter as a function of others, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from fx.config import no_grad
from fx.errors import DTypeError, ShapeError
from fx.nn.base.containers import ModuleDict, ModuleList
from fx.nn.base.module import Module
from fx.nn.parameter import Buffer, Parameter
from fx.nn.utils import _computed
from fx.tensor import Tensor

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip

_cache: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("_cache", default=None)


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once, however often it is read.

    Example:
        >>> import fx
        >>> from fx.nn.utils import parametrize
        >>> with parametrize.cached():
        ...     pass
    """
    token = _cache.set({} if _cache.get() is None else _cache.get())
    try:
        yield
    finally:
        _cache.reset(token)


class _Parametrized:
    """What computes a parametrized attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Any) -> Any:
        known = _cache.get()
        if known is None:
            return module.parametrizations[self.name]()
        key = id(module), self.name
        if key not in known:
            known[key] = module.parametrizations[self.name]()
        return known[key]

    def assign(self, module: Any, value: Any) -> None:
        """Set the originals so that the attribute becomes ``value``."""
        known = _cache.get()
        if known is not None:
            known.pop((id(module), self.name), None)
        module.parametrizations[self.name].right_inverse(value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the originals that they are functions of.

    Args:
        modules: in the order in which they are applied.
        original: the tensor that is parametrized, a Parameter or a Buffer.
        unsafe: whether the result may have another shape or dtype.

    Raises:
        ValueError: if there is no module, or what comes out does not have the shape and dtype of
            ``original``.
    """

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        spec = original.spec
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if new is not original:
                original.rebind(new.detach())
            self._hold("original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                        f"tuple...). Got element {i} of the sequence with type "
                        f"{type(part).__name__}."
                    )
                part = part.detach()
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                self._hold(f"original{i}", part)
        if not unsafe:
            _check_result(self(), spec, "Registering a parametrization")

    def _hold(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Any:
        """The parametrized tensor."""
        first, *others = list(self)
        x = first(*self._originals())
        for module in others:
            x = module(x)
        return x

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that ``forward()`` gives ``value``.

        Raises:
            RuntimeError: if a parametrization has no ``right_inverse``.
            ValueError: if theirs give something else than the originals.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else list(value)
            if len(values) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(values)}."
                )
            for held, new in zip(self._originals(), values, strict=True):
                if not isinstance(new, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(new).__name__}"
                    )
                if new.dtype != held.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} while "
                        f"`original` has dtype {held.dtype}"
                    )
                held.rebind(new.detach())


def _check_result(got: Any, spec: Any, doing: str) -> None:
    if not isinstance(got, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(got).__name__}.")
    for what, error in (("dtype", DTypeError), ("shape", ShapeError)):
        if getattr(got, what) != getattr(spec, what):
            text = (
                f"{doing} may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized {what}: {getattr(spec, what)}\n"
                f"parametrized {what}: {getattr(got, what)}"
            )
            raise ValueError(text) if error is DTypeError else ShapeError(text)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of a module a function of others.

    Reading ``module.tensor_name`` then gives ``parametrization(original)``; assigning to it sets
    the original through ``parametrization.right_inverse``. The originals are
    ``module.parametrizations.tensor_name.original``, or ``original0``, ``original1``, … where
    ``right_inverse`` gives several.

    Args:
        module: it is changed and returned.
        tensor_name: of the parameter or buffer; of one that is parametrized already, to compose.
        parametrization: computes the tensor.
        unsafe: whether it may change shape and dtype; then nothing is checked.

    Raises:
        ValueError: if there is no such tensor, or its shape or dtype would change.

    Example:
        >>> import fx
        >>> from fx import nn
        >>> from fx.nn.utils import parametrize
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
        >>> fx.all(layer.weight == layer.weight.T)
        tensor(True)
        >>> list(layer.state_dict())
        ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        listed = module.parametrizations[tensor_name]
        if not unsafe:
            with no_grad():
                now = getattr(module, tensor_name)
                _check_result(parametrization(now), now.spec, "Registering a parametrization")
        listed.append(parametrization)
        listed.unsafe = listed.unsafe or unsafe
    elif isinstance(_held(module, tensor_name), Parameter | Buffer):
        listed = ParametrizationList([parametrization], _held(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = listed
        _computed.compute(module, tensor_name, _Parametrized(tensor_name), "Parametrized")
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _held(module: Any, name: str) -> Any:
    return module._parameters.get(name, module._buffers.get(name))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrizations, or one of this tensor."""
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a parametrized tensor an ordinary parameter or buffer again.

    Args:
        module: it is changed and returned.
        tensor_name: of the tensor.
        leave_parametrized: whether it keeps the value that it has now; otherwise it gets the
            original's.

    Raises:
        ValueError: if it is not parametrized, or has several originals and is to get theirs.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    listed = module.parametrizations[tensor_name]
    if listed.is_tensor:
        original: Any = listed.original
        if leave_parametrized:
            with no_grad():
                original.rebind(getattr(module, tensor_name).detach())
    elif leave_parametrized:
        now = getattr(module, tensor_name).detach()
        some = listed.original0
        original = Parameter(now, some.requires_grad) if isinstance(some, Parameter) else now
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    _computed.forget(module, tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    if isinstance(original, Parameter):
        module.register_parameter(tensor_name, original)
    else:
        module.register_buffer(tensor_name, original)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of a module without its parametrizations."""
    return _computed.base_of(module) if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give another module the parametrizations of one, with their values.

    Args:
        from_module: has the parametrizations.
        to_module: gets them; it is changed and returned.
        tensor_name: of one tensor; all of them unless told.

    Raises:
        ValueError: if ``to_module`` lacks a tensor of that name.
    """
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        source = from_module.parametrizations[name]
        for part in source:
            register_parametrization(to_module, name, part, unsafe=source.unsafe)
        copies = zip(to_module.parametrizations[name]._originals(), source._originals())
        for held, value in copies:
            held.rebind(value.detach())
    return to_module
