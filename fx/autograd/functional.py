"""Derivatives of functions by PyTorch's functional names; the transforms do the work."""
