"""Module: what it holds, its hooks, state dict, skeleton as a pytree, and containers."""
