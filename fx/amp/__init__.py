"""Mixed precision: autocast, loss scaling, and what a custom function says about both.

Names are those of ``torch.amp``. While a region of ``autocast`` runs, products and convolutions
take their floating operands in half the width, and functions that lose too much there take them
in float32; which do what is said where they are defined (``fx.ops.autocasting``).
"""

from fx.amp.regions import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from fx.amp.scaler import GradScaler
from fx.ops.operands import offered as _offered

__all__ = _offered(globals())
