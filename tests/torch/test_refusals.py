"""What PyTorch refuses for its values, fx refuses too, or says in its documentation what it does.

Each program is one expression, evaluated with torch and with fx's face, eagerly and compiled. Where
torch raises, fx must not answer with a number: eagerly it raises, compiled it raises or gives NaN.
Where torch answers, fx answers the same.
"""

import numpy as np
import pytest

import fx
import fx.torch

torch = pytest.importorskip("torch")

CASES = """
F.embedding(t.tensor([-1]), t.eye(3))
F.embedding(t.tensor([5]), t.eye(3))
F.embedding_bag(t.tensor([[-1]]), t.eye(3))
F.one_hot(t.tensor([-1]), 3)
F.one_hot(t.tensor([3]), 3)
F.one_hot(t.tensor([0, 2]), 3)
F.nll_loss(t.ones(1, 3), t.tensor([-1]))
F.nll_loss(t.ones(1, 3), t.tensor([3]))
F.nll_loss(t.ones(1, 3), t.tensor([-100]))
F.cross_entropy(t.ones(1, 3), t.tensor([-2]))
F.multi_margin_loss(t.ones(1, 3), t.tensor([-1]))
F.multi_margin_loss(t.ones(1, 3), t.tensor([3]))
F.binary_cross_entropy(t.tensor([-0.5]), t.tensor([1.0]))
F.binary_cross_entropy(t.tensor([0.5]), t.tensor([1.5]))
F.gaussian_nll_loss(t.ones(1), t.ones(1), -t.ones(1))
F.kl_div(t.tensor([1.0]), t.tensor([-1.0]))
F.poisson_nll_loss(t.tensor([-1.0]), t.tensor([1.0]), log_input=False)
F.margin_ranking_loss(t.ones(1), t.ones(1), t.tensor([5.0]))
F.cosine_embedding_loss(t.ones(1, 2), t.ones(1, 2), t.tensor([5]))
F.dropout(t.ones(1), 1.5)
F.interpolate(t.ones(1, 1, 2), scale_factor=-1.0)
F.pad(t.ones(1, 2, 2), (3, 0), mode="reflect")
F.pixel_shuffle(t.ones(1, 3, 2, 2), 2)
F.group_norm(t.ones(1, 3, 2), 2)
F.max_pool1d(t.ones(1, 1, 4), 2, padding=2)
F.instance_norm(t.ones(1, 2, 1))
F.batch_norm(t.ones(1, 2), t.zeros(2), t.ones(2), training=True)
t.bincount(t.tensor([-1]))
t.multinomial(t.tensor([-1.0, 2.0]), 1)
t.multinomial(t.tensor([0.0, 0.0]), 1)
t.bernoulli(t.tensor([1.5]))
t.poisson(t.tensor([-1.0]))
t.normal(0.0, -1.0, (1,))
t.randint(5, 5, (1,))
t.linspace(0, 1, -1)
t.quantile(t.arange(3.0), 1.5)
t.repeat_interleave(t.arange(2), t.tensor([-1, 1]))
t.arange(3).unfold(0, 4, 1)
t.narrow(t.arange(3), 0, 2, 2)
t.take(t.arange(3), t.tensor([-1]))
t.take(t.arange(3), t.tensor([3]))
t.gather(t.arange(3), 0, t.tensor([3]))
t.zeros(3).scatter(0, t.tensor([3]), 1.0)
t.zeros(3).index_add(0, t.tensor([3]), t.ones(1))
t.zeros(3, 2).index_add(0, t.tensor([0, 1]), t.ones(1, 2))
t.zeros(3, 2).index_add(0, t.tensor([0, 1]), t.ones(2, 1))
t.zeros(3, 2).index_copy(1, t.tensor([0, 1]), t.ones(2))
t.zeros(3).index_fill(0, t.tensor([0, 1]), t.ones(2))
t.tensor([1, 2]) ** -1
t.full((2,), 300, dtype=t.uint8)
t.tensor([300], dtype=t.uint8)
t.tensor(3.7, dtype=t.int64)
t.tensor([True]) - t.tensor([True])
-t.tensor([True])
t.zeros(0).max()
t.zeros(0).argmax()
t.zeros(0, 3).max(0)[0]
t.zeros(0).mean()
t.ones(1).std()
t.cross(t.ones(2), t.ones(2), 0)
t.diag(t.ones(2, 2, 2))
""".strip().split("\n")


def found(expression, library, wrap=lambda f: f):
    names = {"t": library, "F": library.nn.functional}
    try:
        return np.asarray(wrap(lambda: eval(expression, names))())
    except Exception as error:
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", CASES)
def test_values_that_are_refused(expression):
    theirs = found(expression, torch)
    eager = found(expression, fx.torch)
    compiled = found(expression, fx.torch, fx.jit)
    if isinstance(theirs, Exception):
        assert isinstance(eager, Exception), f"torch: {theirs}; fx: {eager}"
        nothing = isinstance(compiled, np.ndarray) and np.isnan(compiled).all()
        assert isinstance(compiled, Exception) or nothing, f"torch: {theirs}; jit: {compiled}"
        return
    for ours in (eager, compiled):
        assert not isinstance(ours, Exception), ours
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
