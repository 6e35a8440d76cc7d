"""How a DataLoader fetches: epochs and positions, workers, shared memory. ``README.md`` explains."""
