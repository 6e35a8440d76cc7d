"""Guards: what a compiled function reads of Python's state is as it was, or it is staged again."""
