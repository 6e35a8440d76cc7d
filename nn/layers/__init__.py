"""Layers: one file a family, with PyTorch's names and defaults."""
