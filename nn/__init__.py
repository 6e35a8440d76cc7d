"""Modules, layers, functional forms and initialisers, with PyTorch's names and defaults."""
