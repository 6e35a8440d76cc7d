"""The array functions: the Python Array API's names, written on primitives."""
