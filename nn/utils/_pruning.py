"""The methods of pruning: what decides which entries of a parameter are held at zero.

A pruned parameter ``name`` becomes the parameter ``name_orig`` and the buffer ``name_mask``, and
``module.name`` is their product whenever it is read.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from typing import Any

from fx.nn.utils import _computed
from fx.ops.making.creation import ones_like
from fx.ops.reductions.norms import norm
from fx.random.stateful import rand, rand_like
from fx.tensor import Tensor


class BasePruningMethod(ABC):
    """What every pruning method shares; a subclass gives ``compute_mask`` and ``PRUNING_TYPE``.

    ``PRUNING_TYPE`` says what a second pruning of one parameter looks at: ``"unstructured"``,
    ``"structured"`` (with a ``dim``) or ``"global"``.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any = None) -> Any:
        """The pruned tensor; with the inputs of a forward nothing, as it is computed when read."""
        return self.apply_mask(module) if inputs is None else None

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, of the shape of ``t``: 0 for what is pruned, now or in ``default_mask``."""

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter with the mask on it."""
        assert self._tensor_name is not None, f"Module {module} has to be pruned before its tensors"
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.detach().to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune ``module.name``, on top of what it is pruned by already.

        Args:
            module: holds the parameter.
            name: of the parameter.
            args, kwargs: of the method.
            importance_scores: of the shape of the parameter; what is looked at in place of it.

        Returns:
            The method, or the container of all methods of this parameter.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        before = _computed.function_of(module, name)
        if before is not None and not isinstance(before, BasePruningMethod):
            raise ValueError(f"prune: {name} of {type(module).__name__} is computed already")
        whole: BasePruningMethod = method
        if before is not None:
            whole = PruningContainer(before)
            whole.add_pruning_method(method)
        now = getattr(module, name)
        if not isinstance(now, Tensor):
            raise TypeError(
                f"prune: {name} of {type(module).__name__} is no parameter, but a "
                f"{type(now).__name__}"
            )
        if importance_scores is None:
            scores = now.detach()
        else:
            scores = importance_scores
            assert scores.shape == now.shape, (
                f"importance_scores should have the same shape as parameter {name} of {module}"
            )
        if before is None:
            mask = whole.compute_mask(scores, default_mask=ones_like(scores))
            original = module._parameters.pop(name)
            module.register_parameter(f"{name}_orig", original)
            module.register_buffer(f"{name}_mask", mask)
        else:
            held = getattr(module, f"{name}_mask")
            held.rebind(whole.compute_mask(scores, default_mask=held.detach()))
            drop_hook(module, before)
            _computed.forget(module, name)
        _computed.compute(module, name, whole)
        module.register_forward_pre_hook(whole)
        return whole

    def prune(self, t: Tensor, default_mask: Any = None, importance_scores: Any = None) -> Tensor:
        """A tensor with this method's mask on it."""
        if importance_scores is None:
            importance_scores = t
        else:
            assert importance_scores.shape == t.shape, (
                "importance_scores should have the same shape as tensor t"
            )
        mask = ones_like(importance_scores) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=mask)

    def remove(self, module: Any) -> None:
        """Make the parameter an ordinary one, with its pruned value."""
        name = self._tensor_name
        value = self.apply_mask(module).detach()
        if _computed.function_of(module, name) is self:
            _computed.forget(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.rebind(value)
        del module._buffers[f"{name}_mask"]
        module.register_parameter(name, original)


def drop_hook(module: Any, method: BasePruningMethod) -> None:
    """Let a method not be called before forwards any more."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if getattr(hook, "function", hook) is method:
            del module._forward_pre_hooks[key]


class PruningContainer(BasePruningMethod):
    """Several methods that prune one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args and not isinstance(args[0], BasePruningMethod):  # one iterable of methods
            args = tuple(args[0])
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            inside = method._pruning_methods if isinstance(method, PruningContainer) else (method,)
            for one in inside:
                self.add_pruning_method(one)

    def add_pruning_method(self, method: Any) -> None:
        """Prune by another method as well.

        Raises:
            TypeError: if it is no method.
            ValueError: if it is of another parameter.
        """
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, on what ``default_mask`` leaves.

        Raises:
            ValueError: for a method of unknown ``PRUNING_TYPE``.
        """
        method: Any = self._pruning_methods[-1]
        mask = default_mask.detach().to(t.dtype)
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask=mask)  # type: ignore[no-any-return]
        if method.PRUNING_TYPE == "unstructured":
            part: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            others = tuple([i for i in range(t.ndim) if i != dim])
            part = (*[slice(None)] * dim, (mask.sum(others) != 0).nonzero()[:, 0])
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        found = method.compute_mask(t.detach()[part], default_mask=mask[part])
        return mask.at[part].set(found)


class Identity(BasePruningMethod):
    """Prunes nothing: a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask."""
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes entries at random.

    Args:
        amount: how many entries, or which share of them.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        self.amount = _amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask without entries drawn at random."""
        return _without_smallest(rand_like(t), default_mask, _count(self.amount, t.numel()))


class L1Unstructured(BasePruningMethod):
    """Prunes the entries of least absolute value.

    Args:
        amount: how many entries, or which share of them.
    """

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: float) -> None:
        self.amount = _amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask without the smallest entries."""
        return _without_smallest(t.abs(), default_mask, _count(self.amount, t.numel()))


class RandomStructured(BasePruningMethod):
    """Prunes whole channels at random.

    Args:
        amount: how many channels, or which share of them.
        dim: the axis of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        self.amount = _amount(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask without channels drawn at random."""
        return _without_channels(t, default_mask, self, rand(t.shape[_axis(t, self.dim)]))


class LnStructured(BasePruningMethod):
    """Prunes the channels of least n-norm.

    Args:
        amount: how many channels, or which share of them.
        n: the order of the norm, as ``fx.norm`` takes it.
        dim: the axis of the channels.
    """

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        self.amount = _amount(amount)
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask without the channels of least norm."""
        axis = _axis(t, self.dim)
        sizes = norm(_rows(t, axis), self.n, -1)
        return _without_channels(t, default_mask, self, sizes)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The default mask and the given one together."""
        assert default_mask.shape == self.mask.shape
        return default_mask * self.mask.to(default_mask.dtype)


def _rows(t: Tensor, axis: int) -> Tensor:
    order = (axis, *[i for i in range(t.ndim) if i != axis])
    return t.permute(order).reshape(t.shape[axis], -1)


def _axis(t: Tensor, dim: int) -> int:
    if t.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.ndim} dims"
        )
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return dim % t.ndim


def _amount(amount: Any) -> Any:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= amount <= 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            f"integer"
        )
    return amount


def _count(amount: Any, size: int) -> int:
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if amount > size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={size}"
        )
    return int(amount)


def _without_smallest(scores: Tensor, mask: Tensor, count: int) -> Tensor:
    if not count:
        return mask
    places = scores.reshape(-1).topk(count, largest=False).indices
    return mask.reshape(-1).at[places].set(0).reshape(mask.shape)


def _without_channels(t: Tensor, mask: Tensor, method: Any, scores: Tensor) -> Tensor:
    axis = _axis(t, method.dim)
    count = _count(method.amount, t.shape[axis])
    kept = _without_smallest(scores, ones_like(scores), count).to(mask.dtype)
    return mask * kept.reshape(tuple([-1 if i == axis else 1 for i in range(t.ndim)]))
