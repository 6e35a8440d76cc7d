"""NumPy's index language: what ``x[...]`` gives and ``x.at[...]`` puts, and indices an element."""
