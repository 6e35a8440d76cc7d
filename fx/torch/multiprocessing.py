"""``torch.multiprocessing``: Python's own; tensors travel by value."""

from multiprocessing import *  # noqa: F403
