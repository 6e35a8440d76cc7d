"""Arguments that show what a cell holds, of which the function writes: as PyTorch in each call.

The programs are made here: what is written (a parameter, a buffer, an optimizer's slot, a tensor),
how, what the argument shows of it, and in which order calls have an argument that shows it or not.
"""

import itertools
import warnings

import pytest

torch = pytest.importorskip("torch")

import fx
import fx.torch as face
from fx.testing.fuzz import twins

CELLS = {
    "parameter": "x0 = torch.nn.Parameter(torch.ones(2))",
    "buffer": "m = torch.nn.Module(); m.register_buffer('b', torch.ones(2)); x0 = m.b",
    "tensor": "x0 = torch.ones(2)",
    "slot": """p = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([p], lr=0.5, momentum=0.5)
p.grad = torch.ones(2)
o.step()
x0 = o.state[p]['momentum_buffer']""",
}
VIEWS = {
    "view": ("x0.view(2, 1)", (2, 1)),
    "part": ("x0[:1]", (1,)),
    "data": ("x0.data", (2,)),
    "part of data": ("x0.data[:1]", (1,)),
    "detached": ("x0.detach()", (2,)),
    "view of a view": ("x0.view(2, 1)[:1]", (1, 1)),
    "view of what is detached": ("x0.detach().view(2, 1)", (2, 1)),
    "itself": ("x0", (2,)),
}
WRITES = {"all": "x0.add_(0.25)", "a part": "x0[0].mul_(2)", "the argument": "p6.add_(0.25)"}
ORDERS = {
    "first": "vvvv",
    "after another": "uuvvuv",
    "before another": "vvuuv",
    "made anew": "nnnn",
}


def _text(cell: str, write: str, view: str, order: str) -> str:
    made, shape = VIEWS[view]
    held = "" if "n" in order else f"v4 = {made}\n"
    names = {"v": "v4", "u": "u5", "n": made}
    calls = "".join(f"y{i} = f(%s)\n" % names[c] for i, c in enumerate(order))
    return (
        f"{CELLS[cell]}\nu5 = torch.full({shape}, 5.0)\n{held}@jit\n@torch.no_grad()\n"
        f"def f(p6):\n    {write}\n    return (p6 * 1).contiguous()\n{calls}"
    )


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("cell", CELLS)
def test_a_write_is_seen_in_an_argument_that_shows_the_cell(cell, view):
    for n, (write, order) in enumerate(itertools.product(WRITES.values(), ORDERS.values())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            twins.agree(_text(cell, write, view, order), first=n % 2 == 0)


@pytest.mark.parametrize("view", ["view", "part", "data", "part of data", "itself"])
@pytest.mark.parametrize("order", ORDERS)
def test_a_step_is_seen_in_an_argument_that_shows_the_parameter(view, order):
    made, shape = VIEWS[view]
    order = ORDERS[order]
    text = f"""
x0 = torch.nn.Parameter(torch.ones(2))
o = torch.optim.SGD([x0], lr=0.5)
u5 = torch.full({shape}, 5.0)
v4 = {made}
@jit
def f(p6):
    x0.sum().backward()
    o.step()
    o.zero_grad()
    with torch.no_grad():
        return (p6 * 1).contiguous()
"""
    names = {"v": "v4", "u": "u5", "n": made}
    text += "".join(f"y{i} = f({names[c]})\n" for i, c in enumerate(order))
    for first in (True, False):
        twins.agree(text, first=first)


def test_two_arguments_that_are_views_of_one_parameter():
    twins.agree(
        """
        x0 = torch.nn.Parameter(torch.ones(4))
        v1, v2 = x0.view(2, 2), x0.detach()[:2]
        @jit
        @torch.no_grad()
        def f(p, q):
            p.add_(1.0)
            return q * 1, p * 1
        y = f(v1, v2)
        y = f(v1, v2)
        y = f(v1, x0.data)
        y = f(x0, v2)
        y = f(v1, torch.zeros(2))
        """
    )


def test_values_of_a_state_dict_as_an_argument():
    twins.agree(
        """
        m = torch.nn.Linear(2, 1); m.load_state_dict({k: v * 0 for k, v in m.state_dict().items()})
        s = m.state_dict()
        @jit
        @torch.no_grad()
        def f(d):
            m.weight.add_(1.0)
            return d['weight'] * 1
        y = f(s)
        y = f(s)
        y = f(m.state_dict())
        y = f({'weight': torch.ones(1, 2), 'bias': torch.ones(1)})
        """
    )


def test_a_jitted_function_that_a_jitted_function_calls():
    twins.agree(
        """
        x0 = torch.nn.Parameter(torch.ones(4))
        v1 = x0.view(2, 2)
        @jit
        @torch.no_grad()
        def f(p):
            x0.add_(1.0)
            return (p * 1).contiguous()
        @jit
        def g(p, k):
            return f(p)
        y = g(v1, 1)
        y = g(v1, 2)
        y = f(v1)
        y = g(v1, 'a')
        y = g(torch.ones(2, 2), 'a')
        """
    )


def test_what_is_detached_sees_what_a_compiled_function_writes():
    twins.agree(
        """
        x0 = torch.nn.Parameter(torch.ones(2))
        @jit
        @torch.no_grad()
        def f(p):
            x0.add_(p)
            return p * 1
        y = f(torch.ones(2))
        d = x0.detach()
        y = f(torch.ones(2))
        y = f(torch.ones(2))
        """
    )


def test_another_function_of_the_same_code():
    twins.agree(
        """
        x0 = torch.nn.Parameter(torch.ones(2))
        def make():
            @jit
            @torch.no_grad()
            def f(p):
                x0.add_(0.25)
                return (p * 1).contiguous()
            return f
        v1, u1 = x0.view(2, 1), torch.zeros(2, 1)
        y = make()(u1)
        y = make()(u1)
        y = make()(v1)
        f = make()
        y = f(u1)
        y = f(v1)
        """
    )


def test_a_gradient_that_is_an_argument_and_is_written():
    p = face.nn.Parameter(face.ones(2))
    p.grad = face.ones(2)

    @fx.jit
    def f(g):
        p.grad.add_(1.0)
        return g * 1

    assert f(face.zeros(2)).tolist() == [0, 0]
    assert f(face.zeros(2)).tolist() == [0, 0]
    with pytest.warns(RuntimeWarning, match="a gradient that is one of its arguments"):
        assert f(p.grad).tolist() == [4, 4]
    assert f(p.grad).tolist() == [5, 5]
    assert f(face.zeros(2)).tolist() == [0, 0]
    assert p.grad.tolist() == [6, 6]


def test_an_unrelated_argument_is_served_by_one_program():
    x = face.nn.Parameter(face.ones(2))

    @fx.jit
    @face.no_grad()
    def f(p):
        x.add_(0.25)
        return p * 1

    for _ in range(5):
        assert f(face.ones(2)).tolist() == [1, 1]
    assert f.cache_size() == 1
    v = x.detach()
    for i in range(5):
        assert f(v).tolist() == [2.5 + 0.25 * i] * 2
    assert f.cache_size() == 2


# a view that the function takes, and what it does then; both are looked at after each call
TAKEN = {
    "weight": ("m.weight[0]", "m.weight.view(-1)", "m.weight.T", "m.weight.data[0]"),
    "statistics": ("b.running_mean[:1]", "b.running_var.view(2, 1)"),
    "buffer": (
        "m.kept[1:]",
        "m.kept.view(-1)",
        "m.kept.data",
        "m.kept.data[:1]",
        "m.kept.detach()",
    ),
}
DONE = {
    "weight": (
        "o.zero_grad(); (m(x) * x).sum().backward(); o.step()",
        "m.load_state_dict({k: w * 0.5 for k, w in m.state_dict().items()})",
        "m.weight.data = m.weight.data * 0.5",
        "torch.nn.utils.vector_to_parameters(torch.arange(6.0), m.parameters())",
    ),
    "statistics": ("b(x)", "b(x); b.running_mean.mul_(2)", "b.reset_running_stats()"),
    "buffer": (
        "m.kept = m.kept * 0.5",
        "m.kept = m.kept * 0.5; v.add_(10); m.kept.add_(1)",
        "m.kept.mul_(3); m.kept = m.kept + 1; o.step()",
    ),
}


_SAME = "m.load_state_dict({k: 0 * w + 0.75 for k, w in m.state_dict().items()})"  # in one line


@pytest.mark.parametrize("cell", TAKEN)
def test_a_view_taken_inside_is_told_of_all_that_changes_the_cell(cell):
    for view, act in itertools.product(TAKEN[cell], DONE[cell]):
        text = f"""
m, b = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2); {_SAME}
m.register_buffer('kept', torch.ones(2))
o = torch.optim.SGD([m.weight], lr=0.5, momentum=0.5)
x = torch.tensor([[1.0, 2.0], [-3.0, 5.0], [0.5, 1.0]])
(m(x) * x).sum().backward()
@jit
def f(x):
    v = {view}
    {act}
    with torch.no_grad():
        return v, (v * 1).contiguous()
y, z = f(x)
y, z = f(x)
with torch.no_grad():
    m.weight.mul_(2); b.running_mean.mul_(2); b.running_var.mul_(2); m.kept.mul_(2)
y, z = f(x)
"""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            twins.agree(text, first=len(view) % 2 == 0)


@pytest.mark.parametrize("wrote", [False, True])
def test_a_view_from_outside_is_told_of_an_average_that_follows(wrote):
    """Whose cells are rebound all at once, in a call that may not be staged for what it reads."""
    if wrote:
        face.zeros(2).view(2, 1).add_(1)
    found = []
    for library, jit in ((torch, lambda f: f), (face, lambda f: f), (face, fx.jit)):
        m = library.nn.Linear(2, 1)
        library.nn.init.ones_(m.weight)
        a = library.optim.swa_utils.AveragedModel(m)
        w, o = a.module.weight[0], library.optim.SGD(m.parameters(), lr=0.5)

        def step(x, m=m, a=a, w=w, o=o):
            o.zero_grad()
            m(x).sum().backward()
            o.step()
            a.update_parameters(m)
            return w.detach().clone()

        step, x = jit(step), library.ones(1, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found.append([(step(x).tolist(), w.tolist()) for _ in range(3)])
    assert found[1] == found[0] and found[2] == found[0]


def test_what_detach_gave_before_a_step_is_returned_as_it_was():
    w = face.nn.Parameter(face.ones(2))
    o = face.optim.SGD([w], lr=0.5)

    @fx.jit
    def f():
        before = w.detach()
        w.sum().backward()
        o.step()
        return before, w.detach()

    with pytest.warns(RuntimeWarning, match=r"what detach\(\) gave of a parameter that it gives"):
        found = [[x.tolist() for x in f()] for _ in range(3)]
    assert found == [
        [[1, 1], [0.5, 0.5]], [[0.5, 0.5], [-0.5, -0.5]], [[-0.5, -0.5], [-2, -2]],
    ]  # fmt: skip


def test_state_that_began_in_a_call_that_could_not_be_staged_is_not_there():
    p = face.nn.Parameter(face.ones(2))
    o = face.optim.Adam([p], lr=0.5)
    p.grad = face.ones(2)

    @fx.jit
    def f():
        before = len(o.state)
        v = p.view(-1)
        o.step()
        return before, v.sum().item() if v.sum() > 100 else repr(v)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert [f()[0] for _ in range(3)] == [0, 1, 1]
    assert o.state[p]["step"].item() == 3
