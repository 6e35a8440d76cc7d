"""The first draws of a process, which compiled code makes: the bits that Numba's kernels draw."""

import subprocess
import sys

SCRIPT = """
import sys
import numpy as np
import fx
from fx.backends.cpu import draws

key = fx.random.key(7)._a
kinds = [
    (family, shape, np.dtype(dtype))
    for family in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic")
    for shape, dtype in (((), "float32"), ((3, 5), "float64"), ((1000,), "float32"))
]
early = [draws.draw(key, family=f, shape=s, dtype=d) for f, s, d in kinds]
assert "numba" not in sys.modules, "the first draws load Numba"
made = len(draws._early)
draws._kernels()
for (f, s, d), was in zip(kinds, early):
    now = draws.draw(key, family=f, shape=s, dtype=d)
    assert now.dtype == was.dtype and now.shape == was.shape, (f, s, d)
    assert now.tobytes() == was.tobytes(), (f, s, d)
print(made)
"""


def test_they_have_the_same_bits():
    out = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert int(out.stdout) == 18
