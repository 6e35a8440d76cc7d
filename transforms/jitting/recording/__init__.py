"""Recording: the stage of ``jit``, and what it notes of numbers, draws, effects and results."""
