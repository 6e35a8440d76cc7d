"""Datasets, samplers and loaders, with PyTorch's names and defaults."""
