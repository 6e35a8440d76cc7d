"""``jit``: staging whole functions and running what they compile to. ``README.md`` tells how."""

from fx.transforms.jitting.function import Jitted, jit

__all__ = ["Jitted", "jit"]
