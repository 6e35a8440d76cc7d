"""Programs for any size: kernels whose extents are known when they run.

A graph with primes for its sizes is scheduled as any other, for a target whose steps take such
sizes: nests with extents, products by the kernels of eager calls, and the others of ``_KERNELS``.
What else depends on a size refuses the program. What the body and the kernels have to know of sizes
stands in an array of *words*, the last constant of the program: the sizes themselves, offsets in
the arena, tasks, and the tables of products. ``SizedProgram.at`` fills it in.
"""

from fx.backends.cpu.llvm.sized.program import (
    SizedProgram,
    UnlikeError,
    program_for,
    sizes_for,
    stored_program,
)

__all__ = ["SizedProgram", "UnlikeError", "program_for", "sizes_for", "stored_program"]
