"""Fused loop kernels: index maps, groups of nodes, and the code that runs them; see README.md."""
