"""Functions of each element: one row of a table, or several primitives."""
