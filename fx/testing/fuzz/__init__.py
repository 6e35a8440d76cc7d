"""A fuzzer that stays: programs made at random, against what they must be equal to.

``python -m fx.testing.fuzz --minutes 5`` runs programs of every generator; ``--only graphs,loops``
of some, ``--seed 3`` other ones, ``--programs 200`` as many of each. A program that fails is cut
down by itself to the smallest that still fails and printed as a test; the exit status is then 1.

| generator | its programs | equal to |
| --- | --- | --- |
| ``graphs`` | operators of all dtypes, layouts, special values | jit = eager, vmap = loop |
| ``primitives`` | one primitive between two others | jit = eager |
| ``numbers`` | Python numbers as arguments | jit = eager: value, dtype or exception |
| ``lengths`` | slices of lengths that are arguments | jit = eager, any order of lengths |
| ``derivatives`` | compositions of grad, jvp, vjp, hessian, vmap, jit | differences; jit = eager |
| ``histories`` | grad modes, questions, rules, derived inside of jit and outside | eager |
| ``loops`` | ``fori_loop``, ``scan``, ``while_loop`` with derivatives | a Python loop |
| ``pystate`` | globals, closures, attributes, containers, ``random``, changed meanwhile | eager |
| ``interrupts`` | exceptions of signal handlers in training steps | the state before or after |
| ``threads`` | readers of a model in training; jitted functions that call each other | calm ones |
| ``files`` | mutated ``.pt``, ``.npz``, ``.npy``, safetensors, checkpoints | a value or an error |
| ``writes`` | PyTorch's words: writes, views, aliases, branches, loops, ``backward`` | torch |
| ``jitwrites`` | the same in functions under ``jit`` | torch |

How it works: a generator (``make(rng)`` in its file) gives a ``Program``: sections of operations in
a template of source (``program.py``). The source is what is run, in a child process that says which
program it is about to run (``child.py``); ``runner.py`` starts children, sees that they answer in
time, and makes what fails smaller by dropping, merging and simplifying operations. What programs
assert is in ``compare.py`` and ``twins.py``, what rounding is in ``outcomes.py``. A new generator
is a file here and a row in ``generator.py``.
"""
