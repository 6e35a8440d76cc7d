"""Views at a place that a tensor names, ``x[i]``, are written inside of jitted functions."""

import pytest
import torch

import fx
import fx.torch as fxt

BODIES = {
    "row": "v = x[i]; v += 1",
    "column": "v = x[:, i]; v.mul_(2)",
    "part of a row": "v = x[i, 1:]; v[0] = 7",
    "element": "x[i][i].fill_(9)",
    "method": "x[i].add_(1)",
    "from the end": "x[-1 - i].sub_(3)",
    "with None": "v = x[None, i, ...]; v -= 1",
    "transposed": "v = x.T[i]; v += 1",
    "of a view": "v = x[i]; w = v[1:3]; w.zero_()",
    "seen": "v = x[i]; x.mul_(2); x = x + v",
    "in a loop": "x = x * 1\n    for k in range(2): r = x[(i + k) % 3]; r += k + 1",
    "computed": "x[torch.argmax(x.sum(1))].add_(1)",
    "of a copy": "y = x.clone(); v = y[i]; v += 1; x = x + v",
    "row and column": "x[i, i].mul_(5)",
    "row by a number": "x[n, i].mul_(5)",
    "slice by a number": "x[n : n + 2].add_(1)",
    "slice and place": "x[n : n + 2, i].add_(1)",
}


def results(library, body, wrap):
    """What a function gives at three places, and what its argument is then."""
    space = {"torch": library}
    exec(compile(f"def f(x, i, n):\n    {body}\n    return x * 1", "/user/at.py", "exec"), space)
    f, found = wrap(space["f"]), []
    for k in (1, 0, 2):
        x = library.arange(12.0).reshape(3, 4)
        found += [f(x, library.tensor(k), k % 2).tolist(), x.tolist()]
    return found


@pytest.mark.parametrize("name", BODIES)
def test_writes_at_a_place_reach_what_they_are_of(name):
    assert results(fxt, BODIES[name], fx.jit) == results(torch, BODIES[name], lambda f: f)


@pytest.mark.parametrize("wrap", [fx.jit, lambda f: f])
def test_a_result_at_a_place_is_a_view(wrap):
    x = fxt.arange(12.0).reshape(3, 4)
    row = wrap(lambda x, i: x[i])
    for k in (1, 0):
        row(x, fxt.tensor(k)).add_(10)
    assert x.tolist() == [[10, 11, 12, 13], [14, 15, 16, 17], [8, 9, 10, 11]]


def test_a_parameter_is_written_at_a_place():
    def run(library, wrap):
        w = library.nn.Parameter(library.arange(12.0).reshape(3, 4))

        def step(i):
            with library.no_grad():
                w[i].mul_(2)
            loss = (w[i] ** 2).sum()
            loss.backward()
            return loss

        jitted = wrap(step)
        return [jitted(library.tensor(k)).item() for k in (0, 1, 0)], w.tolist(), w.grad.tolist()

    assert run(fxt, fx.jit) == run(torch, lambda f: f)
