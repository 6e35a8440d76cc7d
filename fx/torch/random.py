"""``torch.random``: the default generator."""

from fx import get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from fx.random.generator import default_generator, fork_rng

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed",
    "set_rng_state",
]  # fmt: skip
