"""``.backward()``, ``.grad``, leaves and graphs, against torch."""

import numpy as np
import pytest

import fx

torch = pytest.importorskip("torch")

A = np.random.default_rng(0).standard_normal((3, 4))
B = np.random.default_rng(1).standard_normal((4, 2))


def leaves(m, *arrays):
    """The arrays as leaves of fx or torch."""
    return [m.tensor(a, requires_grad=True) for a in arrays]


def equal(found, expected):
    if expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-12)


PROGRAMS = {
    "product of matrices": lambda m, a, b: (m.tanh(a @ b)).sum(),
    "used twice": lambda m, a, b: (a * a).sum() * (a.sum() + b.sum()),
    "broadcast": lambda m, a, b: (a * b[:, 0]).sum() + (a[0] + 1.0).sum(),
    "scalar times": lambda m, a, b: 2.0 * (a - 0.5).sum() / b.sum(),
    "only one used": lambda m, a, b: (b * b).sum(),
    "diamond": lambda m, a, b: ((a @ b) * (a @ b) + (a @ b)).sum(),
    "sliced": lambda m, a, b: a[1:, ::2].sum() * b[0, 0],
    "reshaped": lambda m, a, b: (a.reshape(4, 3) @ a).sum() + b.T.sum(),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_equal_torch(program):
    ours, theirs = leaves(fx, A, B), leaves(torch, A, B)
    y, z = program(fx, *ours), program(torch, *theirs)
    equal(y, z)
    y.backward()
    z.backward()
    for x, t in zip(ours, theirs, strict=True):
        equal(x.grad, t.grad)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_gradients_add_up_over_passes(program):
    ours, theirs = leaves(fx, A, B), leaves(torch, A, B)
    for _ in range(3):
        program(fx, *ours).backward()
        program(torch, *theirs).backward()
    for x, t in zip(ours, theirs, strict=True):
        equal(x.grad, t.grad)


def test_a_weighted_gradient_equals_torch():
    weights = np.arange(12.0).reshape(3, 4)
    (x,), (t,) = leaves(fx, A), leaves(torch, A)
    (x * x).backward(fx.tensor(weights))
    (t * t).backward(torch.tensor(weights))
    equal(x.grad, t.grad)
    x.grad = None
    (x * x).backward(gradient=weights)  # an array will do
    equal(x.grad, t.grad)


def test_one_element_needs_no_gradient_argument():
    x = fx.ones((1, 1), requires_grad=True)
    (x * 3).backward()
    assert x.grad.tolist() == [[3.0]]


@pytest.mark.parametrize("create", [False, True])
def test_retained_graphs_can_be_passed_again(create):
    x, t = fx.tensor(2.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    y, u = x**3, t**3
    for _ in range(2):
        y.backward(retain_graph=True, create_graph=create)
        u.backward(retain_graph=True)
    y.backward()
    u.backward()
    equal(x.grad, t.grad)


def test_create_graph_differentiates_the_pass():
    def penalty(m, x):
        y = (m.exp(x) * x).sum()
        y.backward(create_graph=True)
        g, x.grad = x.grad, None
        ((g * g).sum() + y).backward()
        return x.grad

    (x,), (t,) = leaves(fx, A), leaves(torch, A)
    equal(penalty(fx, x), penalty(torch, t))


def test_create_graph_goes_to_the_fourth_order():
    x, t = fx.tensor(0.7, requires_grad=True), torch.tensor(0.7, requires_grad=True)
    y, u = fx.sin(x) * x, torch.sin(t) * t
    for _ in range(4):
        (y,) = fx.autograd.grad(y, x, create_graph=True)
        (u,) = torch.autograd.grad(u, t, create_graph=True)
        np.testing.assert_allclose(y.item(), u.item(), rtol=1e-5)


def test_inputs_receive_and_others_do_not():
    (a, b), (c, d) = leaves(fx, A, B), leaves(torch, A, B)
    (a @ b).sum().backward(inputs=[a])
    (c @ d).sum().backward(inputs=[c])
    equal(a.grad, c.grad)
    assert b.grad is None


def test_inputs_may_be_no_leaves():
    (a,), (c,) = leaves(fx, A), leaves(torch, A)
    m, n = a * a, c * c
    n.retain_grad()
    (m * m).sum().backward(inputs=[m])
    (n * n).sum().backward()
    equal(m.grad, n.grad)
    assert a.grad is None


def test_several_tensors_at_once():
    (a, b), (c, d) = leaves(fx, A, B), leaves(torch, A, B)
    fx.autograd.backward([a * a, b.sum()], [fx.tensor(A), None])
    torch.autograd.backward([c * c, d.sum()], [torch.tensor(A), None])
    equal(a.grad, c.grad)
    equal(b.grad, d.grad)


def test_leaves_and_their_graph():
    x = fx.ones(3, requires_grad=True)
    y = x * 2
    assert (x.is_leaf, x.grad_fn, x.requires_grad) == (True, None, True)
    assert (y.is_leaf, y.requires_grad, y.grad) == (False, True, None)
    assert fx.ones(3).is_leaf and not fx.ones(3).requires_grad
    z = y.detach()
    assert z.is_leaf and not z.requires_grad and z.tolist() == y.tolist()


NAMES = {
    "AddBackward0": lambda x, m: x + x,
    "SubBackward0": lambda x, m: x - 1.5 * x,
    "MulBackward0": lambda x, m: x * x,
    "DivBackward0": lambda x, m: x / x,
    "NegBackward0": lambda x, m: -x,
    "MmBackward0": lambda x, m: x @ x,
    "SumBackward0": lambda x, m: x.sum(),
    "TanhBackward0": lambda x, m: m.tanh(x),
    "ExpBackward0": lambda x, m: m.exp(x),
    "PermuteBackward0": lambda x, m: x.permute(1, 0),
}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_have_the_names_that_torch_gives(name):
    ours, theirs = NAMES[name](fx.ones((2, 2), requires_grad=True), fx), None
    theirs = NAMES[name](torch.ones((2, 2), requires_grad=True), torch)
    assert ours.grad_fn.name() == theirs.grad_fn.name() == name


def test_next_functions_lead_to_the_leaves():
    x = fx.ones(3, requires_grad=True)
    node = (x * 2 + x).grad_fn
    (product, index), (leaf, _) = node.next_functions
    assert (product.name(), index, leaf.name()) == ("MulBackward0", 0, "AccumulateGrad")
    assert leaf.variable is x
    assert product.next_functions == ((leaf, 0), (None, 0))


def test_an_output_of_several_knows_its_number():
    x = fx.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, indices = x.sort()
    assert values.output_nr == 0 and values.grad_fn is not None
    assert indices.grad_fn is None and not indices.requires_grad


def test_requires_grad_can_be_set_and_taken_back():
    x = fx.ones(2)
    x.requires_grad = True
    assert x.requires_grad
    assert x.requires_grad_(False) is x and not x.requires_grad
    assert x.requires_grad_() is x
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_detach_stops_the_gradient_as_in_torch():
    (x,), (t,) = leaves(fx, A), leaves(torch, A)
    (x * x.detach()).sum().backward()
    (t * t.detach()).sum().backward()
    equal(x.grad, t.grad)


def test_a_constant_that_is_used_everywhere_cannot_be_made_to_require_grad():
    for make in (lambda: fx.tensor(2.0), lambda: fx.asarray(2.0), lambda: fx.ones(()) * 2.0):
        x = make().requires_grad_()
        y = fx.tensor(3.0, requires_grad=True) * 2.0
        y.backward()
        assert x.grad is None


def test_gradients_of_different_leaves_are_different_tensors():
    gx, gy = fx.grad(lambda x, y: (x + y).sum(), (0, 1))(fx.ones(2), fx.ones(2))
    gx.requires_grad_()
    assert not gy.requires_grad
    one = fx.grad(lambda x: x)(fx.tensor(1.0))
    one.requires_grad_()
    assert not fx.grad(lambda x: x)(fx.tensor(1.0)).requires_grad


# grad as an attribute ---------------------------------------------------------------------------


def test_grad_can_be_assigned():
    x = fx.ones(2, requires_grad=True)
    x.grad = fx.tensor([1.0, 2.0])
    (x * 3).sum().backward()
    assert x.grad.tolist() == [4.0, 5.0]
    x.grad = None
    assert x.grad is None


def test_retained_gradients_of_inner_tensors():
    (x,), (t,) = leaves(fx, A), leaves(torch, A)
    y, u = x * x, t * t
    for v in (y, u):
        v.retain_grad()
        assert v.retains_grad
    (y * y).sum().backward()
    (u * u).sum().backward()
    equal(y.grad, u.grad)
    x.retain_grad()
    assert not x.retains_grad  # a leaf keeps it anyway


# hooks ------------------------------------------------------------------------------------------


def test_hooks_change_the_gradient_as_in_torch():
    def run(m, x):
        y = x * 3.0
        seen = []
        y.register_hook(lambda g: g * 2.0)
        y.register_hook(lambda g: seen.append(g.detach().numpy().copy()))
        x.register_hook(lambda g: g + 1.0)
        (y * y).sum().backward()
        return x.grad, seen

    (x,), (t,) = leaves(fx, A), leaves(torch, A)
    (g, seen), (h, expected) = run(fx, x), run(torch, t)
    equal(g, h)
    np.testing.assert_allclose(seen, expected, rtol=1e-12)


def test_hooks_can_be_removed():
    x = fx.ones(2, requires_grad=True)
    calls = []
    with x.register_hook(calls.append) as handle:
        x.sum().backward()
    x.sum().backward()
    handle.remove()
    assert len(calls) == 1


def test_a_hook_sees_the_whole_gradient_once():
    x = fx.ones(2, requires_grad=True)
    y = x * 1.0
    calls = []
    y.register_hook(lambda g: calls.append(g.tolist()))
    (y + y * 2 + y * 3).sum().backward()
    assert calls == [[6.0, 6.0]]


def test_post_accumulate_hooks_get_the_tensor_with_its_gradient():
    x = fx.ones(2, requires_grad=True)
    calls = []
    handle = x.register_post_accumulate_grad_hook(lambda p: calls.append((p is x, p.grad.tolist())))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert calls == [(True, [2.0, 2.0]), (True, [4.0, 4.0])]
    x.register_post_accumulate_grad_hook(lambda p: p.grad)  # as if it replaced the gradient
    with pytest.raises(fx.errors.BackwardError, match=r"returned Tensor; .* should return None"):
        (x * 2).sum().backward()


def test_hooks_of_several_outputs():
    x = fx.tensor([3.0, 1.0, 2.0], requires_grad=True)
    values, _ = x.sort()
    values.register_hook(lambda g: g * fx.tensor([1.0, 10.0, 100.0]))
    values.sum().backward()
    assert x.grad.tolist() == [100.0, 1.0, 10.0]


def test_a_parameter_is_a_leaf_with_hooks():
    p = fx.nn.Parameter(fx.ones(2))
    calls = []
    p.register_post_accumulate_grad_hook(lambda q: calls.append(q is p))
    (p * 3).sum().backward()
    assert p.is_leaf and p.requires_grad and p.grad.tolist() == [3.0, 3.0] and calls == [True]
    p.requires_grad = False
    assert not (p * 3).requires_grad


FROZEN = """
model = torch.nn.Linear(2, 1)
with torch.no_grad():
    model.weight.fill_(0.5), model.bias.zero_()
calls = []
model.weight.register_hook(lambda g: calls.append(1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(3, 2)).sum().backward()
model.requires_grad_(False)
seen(model.weight.grad, model.bias.grad)
optimizer.step()
seen(model.weight)
model.requires_grad_(True)
model(torch.ones(3, 2)).sum().backward()
seen(model.weight.grad, torch.tensor(len(calls)))
model.requires_grad_(False)
optimizer.zero_grad()
seen(torch.tensor(model.weight.grad is None))
x = torch.ones(3, requires_grad=True)
(x * x).sum().backward()
x.requires_grad = False
seen(torch.nn.utils.clip_grad_norm_([x], 1.0), x.grad)
x[0] = 5.0
x.grad.mul_(3)
x.requires_grad_()
(x * x).sum().backward()
seen(x.grad)
x.requires_grad = False
x.grad = None
x.requires_grad = True
seen(torch.tensor(x.grad is None))
"""


def test_what_requires_grad_no_more_keeps_its_gradient():
    import fx.torch as face

    def run(torch):
        found = []
        seen = lambda *xs: found.extend(np.array(x.tolist()) for x in xs)
        exec(FROZEN, {"torch": torch, "seen": seen})
        return found

    for mine, theirs in zip(run(face), run(torch), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_a_gradient_at_rest_goes_with_its_tensor():
    import gc

    from fx.gradients import leaves

    gc.collect()
    before = len(leaves)
    x = fx.ones(3).requires_grad_()
    x.sum().backward()
    x.requires_grad_(False)
    assert len(leaves) == before + 1
    del x
    assert len(leaves) == before


def test_what_was_compiled_without_a_gradient_at_rest_notices_a_later_one():
    def run(how):
        frozen, p = (fx.nn.Parameter(fx.ones(2)) for _ in range(2))
        frozen.requires_grad_(False)
        optimizer = fx.optim.SGD([frozen, p], lr=0.5)

        def step(x):
            out = x * 2 if frozen.grad is None else x * frozen.grad
            optimizer.zero_grad()
            (p * out).sum().backward()
            optimizer.step()
            return p.detach() * 1

        called, found = how(step), []
        for _ in range(2):
            found += [called(fx.ones(2)).tolist() for _ in range(3)]
            frozen.requires_grad_()
            (frozen * 7).sum().backward()
            frozen.requires_grad_(False)
        return found, frozen.grad.tolist()

    assert run(fx.jit) == run(lambda f: f)


def test_a_compiled_function_that_reads_a_gradient_at_rest_runs_as_it_is():
    x = fx.ones(3).requires_grad_()
    x.sum().backward()
    x.requires_grad_(False)
    f = fx.jit(lambda: x.grad * 2)
    with pytest.warns(RuntimeWarning, match="requires grad no more"):
        for _ in range(4):  # a step that clears it is staged at its next call
            assert f().tolist() == [2, 2, 2]
    x.grad = fx.zeros(3)
    assert f().tolist() == [0, 0, 0]
