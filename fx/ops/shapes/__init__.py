"""Shapes: rearranging, joining, taking apart, borders."""
