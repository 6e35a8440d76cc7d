"""``torch.multiprocessing``: Python's own; tensors travel by value."""

from multiprocessing import *
from multiprocessing import get_all_start_methods, get_context, get_start_method, set_start_method
