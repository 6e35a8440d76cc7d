"""Benchmarks of fx against its peers: ``python -m benchmarks --list``."""
