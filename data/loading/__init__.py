"""How a DataLoader fetches: epochs, workers, shared memory; ``../README.md`` explains."""
