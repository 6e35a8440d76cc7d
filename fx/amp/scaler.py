"""Loss scaling: float16 gradients stay in its range; steps with inf or NaN are left out."""

from __future__ import annotations

import warnings
from typing import Any

import fx.ops.making.creation as creation
from fx import dtypes
from fx.config import modes, no_grad
from fx.errors import StateError
from fx.ops.convert import as_tensor
from fx.ops.indexing.searching import where
from fx.ops.pointwise.elementwise import isfinite
from fx.ops.reductions.reduction import all as every
from fx.state import Cell
from fx.tensor import Tensor
from fx.transaction import whole


class GradScaler:
    """Multiplies the loss so that small gradients of float16 do not vanish, and finds the factor.

    Args:
        device: ``"cpu"``; on another, which is not there, the scaler warns and does nothing.
        init_scale: the factor at first.
        growth_factor: what it is multiplied by after ``growth_interval`` good steps in a row.
        backoff_factor: what it is multiplied by after a step whose gradients had inf or NaN.
        growth_interval: see above.
        enabled: False to pass everything through.

    Source: ``torch.amp.GradScaler``; Micikevicius et al., "Mixed precision training", 2018.

    Example:
        >>> import fx
        >>> from fx.amp import GradScaler
        >>> p = fx.nn.Parameter(fx.ones(2))
        >>> optimizer, scaler = fx.optim.SGD([p], lr=0.5), GradScaler("cpu")
        >>> scaler.scale((p * p).sum()).backward()
        >>> p.grad
        tensor([131072., 131072.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> p.detach()
        tensor([0., 0.])
    """

    def __init__(
        self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
        backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        if enabled and device != "cpu":
            warnings.warn(
                f"torch.{device}.amp.GradScaler is enabled, but {device.upper()} is not available. "
                f"Disabling.", UserWarning, stacklevel=2,
            )  # fmt: skip
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise ValueError(f"the growth factor must be > 1.0, got {growth_factor}")
        if enabled and backoff_factor >= 1.0:
            raise ValueError(f"the backoff factor must be < 1.0, got {backoff_factor}")
        self._device, self._enabled = device, bool(enabled)
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale = _cell(float(init_scale), dtypes.float32, "scale")
        self._good = _cell(0, dtypes.int32, "good steps")
        self._found: dict[int, Tensor] = {}  # of an unscaled optimizer: inf or NaN is there
        self._stepped: set[int] = set()

    def scale(self, outputs: Any) -> Any:
        """``outputs`` times the factor: a tensor, or tensors in lists, tuples and iterables."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            # a scalar of another dtype, as in PyTorch, which takes the dtype of an array's partner
            factor = self._scale.read()
            return outputs * (factor if not outputs.ndim else factor.to(outputs.dtype))
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(one) for one in outputs])
        try:
            return map(self.scale, outputs)
        except TypeError:
            raise ValueError("outputs must be a Tensor or an iterable of Tensors") from None

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the factor, before they are clipped, say.

        Raises:
            RuntimeError: if that was done since the last update, or the step was taken.
            ValueError: for gradients in float16: the parameters themselves should be float32.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() is being called after step().")
        if id(optimizer) in self._found:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        with no_grad():
            # the reciprocal in float64, as it is rounded once
            inverse = self._scale.read().to(dtypes.float64).reciprocal().to(dtypes.float32)
            bad = None
            for group in optimizer.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    if grad.dtype == dtypes.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    finite = every(isfinite(grad))
                    bad = ~finite if bad is None else bad | ~finite
                    p.grad = grad * inverse.to(grad.dtype)
        if bad is not None:
            self._found[id(optimizer)] = bad

    def step(self, optimizer: Any, *args: Any, **options: Any) -> Any:
        """``optimizer.step(...)`` with unscaled gradients, unless one of them is inf or NaN.

        Raises:
            RuntimeError: for a second step before an update, for a closure, and where no parameter
                has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **options)
        if "closure" in options:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        number = id(optimizer)
        if number in self._stepped:
            raise RuntimeError("step() has already been called since the last update().")
        if number not in self._found:
            self.unscale_(optimizer)
        if number not in self._found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        self._stepped.add(number)
        return None if bool(self._found[number]) else optimizer.step(*args, **options)

    def update(self, new_scale: Any = None) -> None:
        """Make the factor smaller after a step that was left out, larger after many good ones.

        Args:
            new_scale: the factor to take instead.
        """
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale.rebind(as_tensor(new_scale, dtype=dtypes.float32))
        elif not self._found:
            raise AssertionError("No inf checks were recorded prior to update.")
        else:
            bad = None
            for one in self._found.values():
                bad = one if bad is None else bad | one
            with no_grad():
                self._advance(bad)
        self._found.clear()
        self._stepped.clear()

    def _advance(self, bad: Any) -> None:
        scale, good = self._scale.read(), self._good.read() + 1
        grown = scale * self._growth_factor
        full = good == self._growth_interval
        up = where(full & isfinite(grown), grown, scale)
        self._scale.rebind(where(bad, scale * self._backoff_factor, up))
        self._good.rebind(where(bad | full, creation.zeros_like(good), good))

    def get_scale(self) -> float:
        """The factor; 1 if the scaler is not enabled."""
        return float(self._scale.read().item()) if self._enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_growth_factor(self) -> float:
        """See the arguments of the class."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """See the arguments of the class."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """See the arguments of the class."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """See the arguments of the class."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """See the arguments of the class."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """See the arguments of the class."""
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """The factors and the number of good steps, as PyTorch saves them; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": int(self._good.read().item()),
        }

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what ``state_dict`` of another scaler gave.

        Raises:
            StateError: for the state of a scaler that was not enabled.
        """
        if not self._enabled:
            return
        if not state_dict:
            raise StateError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        changes = modes.transaction
        good = as_tensor(int(state_dict["_growth_tracker"]), dtype=dtypes.int32)
        changes.rebind(self._scale, as_tensor(float(state_dict["scale"]), dtype=dtypes.float32))
        changes.rebind(self._good, good)
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            changes.set(self, f"_{name}", state_dict[name])


def _cell(value: float, dtype: Any, name: str) -> Cell:
    return Cell(as_tensor(value, dtype=dtype), name=name)
