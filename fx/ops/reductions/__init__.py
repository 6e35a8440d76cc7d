"""Along axes: sums, statistics, norms, order, counts and sets."""
