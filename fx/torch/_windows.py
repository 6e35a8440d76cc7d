"""``torch.hann_window`` and its kin: periodic windows of ``fx.signal.windows``."""

from __future__ import annotations

from typing import Any

from fx.signal import windows
from fx.tensor import Tensor


def _window(make: Any, **fixed: Any) -> Any:
    """A window of PyTorch's older form; ``fixed`` are the words that follow, and their defaults."""

    def function(
        window_length: int, periodic: bool = True, *args: Any, dtype: Any = None,
        layout: Any = None, device: Any = None, requires_grad: bool = False,
        pin_memory: bool = False, **options: Any,
    ) -> Tensor:  # fmt: skip
        given = dict(zip(fixed, args, strict=False))
        unknown = [word for word in options if word not in fixed or word in given]
        if unknown or len(args) > len(fixed):
            listed = ", ".join(("window_length", "periodic", *fixed))
            raise TypeError(f"torch.{function.__name__}() takes {listed}, got {unknown or args!r}")
        options = {**fixed, **given, **options}
        if make is windows.general_cosine:
            options = {"a": (options["alpha"], options["beta"])}
        return make(  # type: ignore[no-any-return]
            window_length, sym=not periodic, dtype=dtype, device=device,
            requires_grad=requires_grad, **options,
        )  # fmt: skip

    function.__doc__ = (make.__doc__ or "").split("\n")[0]
    return function


bartlett_window, blackman_window = _window(windows.bartlett), _window(windows.blackman)
hann_window, kaiser_window = _window(windows.hann), _window(windows.kaiser, beta=12.0)
hamming_window = _window(windows.general_cosine, alpha=0.54, beta=0.46)
for _name in ("bartlett", "blackman", "hann", "kaiser", "hamming"):
    globals()[f"{_name}_window"].__name__ = f"{_name}_window"
