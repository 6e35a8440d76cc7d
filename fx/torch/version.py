"""``torch.version``: whose names these are."""

import fx

PYTORCH = "2.13.0"  # the version whose names and defaults are followed
__version__ = f"{PYTORCH}+fx{fx.__version__}"
cuda = hip = xpu = None
debug = False
