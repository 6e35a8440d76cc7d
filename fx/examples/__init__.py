"""Programs that show fx at work; each runs as ``python -m fx.examples.<name>``."""
