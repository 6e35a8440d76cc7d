"""Watching: what a function does while it is staged, instruction by instruction."""
