"""Random programs that switch ``requires_grad`` and assign ``.data``, against torch.

What was computed or cut before stays what it is: its gradients arrive where PyTorch's do, and its
values are those of the memory that it was cut of.
"""

import random

import numpy as np
import pytest
import torch

import fx
import fx.torch as fxt

PROGRAMS = 60
KINDS = (
    "torch.nn.Parameter(torch.arange(4.) + {})",
    "(torch.arange(4.) + {}).requires_grad_(True)",
)
OPTIMIZERS = ("SGD([w, u], lr=0.1)", "SGD([w, u], lr=0.1, momentum=0.9)", "Adam([w, u], lr=0.1)")


def program(rng):
    """Lines of a program, and the names of its tensors."""
    lines = [f"w = {rng.choice(KINDS).format(1)}", f"u = {rng.choice(KINDS).format(2)}"]
    views, results = [], []
    optimizes = rng.random() < 0.5
    if optimizes:
        lines.append(f"o = torch.optim.{rng.choice(OPTIMIZERS)}")
    for n in range(rng.randint(6, 14)):
        x = rng.choice("wu")
        what = rng.choice(
            ("flag", "flag", "compute", "compute", "backward", "view", "data", "step")
        )
        if what == "flag":
            lines.append(f"{x}.requires_grad_({rng.choice((True, False))})")
        elif what == "compute":
            lines.append(f"y{n} = ({x} * {rng.choice('wu')}).sum() + {x}.sum()")
            results.append(f"y{n}")
        elif what == "backward" and results:
            y = results.pop(rng.randrange(len(results)))
            lines.append(f"if {y}.requires_grad: {y}.backward(retain_graph=True)")
        elif what == "view":
            cut = rng.choice(("[1:]", ".detach()", ".view(2, 2)", ".data[:2]", ".detach()[::2]"))
            lines.append(f"v{n} = {x}{cut}")
            views.append(f"v{n}")
        elif what == "data":
            write = rng.choice(("{0}.data = {0}.data * 2", "{0}.data = torch.ones(4)"))
            lines.append(write.format(x))
            results.clear()  # PyTorch's slopes of these would be those at the new values
        elif what == "step" and optimizes and not views:  # what is detached keeps its values
            lines.append(rng.choice(("o.step()", "o.step()", "o.zero_grad()")))
            results.clear()
    if rng.random() < 0.5:
        lines.append("with torch.no_grad(): w.mul_(3); u.add_(1)")
    return lines, ["w", "u", *views]


def state(library, lines, names):
    """What the tensors of a program, and their gradients, are in the end."""
    space = {"torch": library}
    exec(compile("\n".join(lines), "/user/program.py", "exec"), space)
    found = [space[name] for name in names]
    grads = [space[name].grad for name in "wu"]
    return [None if x is None else x.detach().numpy().copy() for x in (*found, *grads)]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_flags_and_data(seed):
    lines, names = program(random.Random(seed))
    expected, found = state(torch, lines, names), state(fxt, lines, names)
    for name, a, b in zip([*names, "w.grad", "u.grad"], expected, found, strict=True):
        assert (a is None) == (b is None), (name, lines)
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=1e-5, err_msg=f"{name} of {lines}")


@pytest.mark.parametrize("jitted", [False, True])
def test_a_critic_that_is_frozen_for_the_generator(jitted):
    def gradients(library, compiled):
        library.manual_seed(0)
        weights = np.linspace(-1, 1, 6, dtype=np.float32)
        critic, maker = library.nn.Linear(3, 1), library.nn.Linear(2, 3)
        with library.no_grad():
            critic.weight.copy_(library.tensor(weights[:3].reshape(1, 3)))
            maker.weight.copy_(library.tensor(weights.reshape(3, 2)))
            for layer in (critic, maker):
                layer.bias.fill_(0.5)

        def losses():
            real = critic(library.ones(4, 3)).sum()
            critic.requires_grad_(False)
            made = critic(maker(library.ones(4, 2))).sum()
            critic.requires_grad_(True)
            (real + made).backward()

        (fx.jit(losses) if compiled else losses)()
        return [p.grad.numpy().copy() for m in (critic, maker) for p in m.parameters()]

    for a, b in zip(gradients(torch, False), gradients(fxt, jitted), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "Adagrad"])
def test_a_frozen_tensor_with_a_gradient_moves(optimizer):
    def values(library):
        w = library.ones(3, requires_grad=True)
        o = getattr(library.optim, optimizer)([w], lr=0.1)
        out = []
        for i in range(6):
            if i in (2, 4):
                w.requires_grad_(i == 4)
            if w.requires_grad:
                (w * w).sum().backward()
            if i == 3:
                o.zero_grad()
            o.step()
            out.append(w.detach().numpy().copy())
        return out

    # steps of the size of the first weights take them near zero: their rounding stays
    np.testing.assert_allclose(values(fxt), values(torch), rtol=1e-5, atol=2.0**-22)


def test_an_optimizer_of_a_tensor_without_a_flag_leaves_its_views_alone():
    w = fxt.arange(4.0) + 1
    w.mul_(2)
    before = w[1:]
    with fxt.no_grad():
        silent = w[:2]
    fxt.optim.SGD([w], lr=0.1)
    assert not (w.requires_grad or before.requires_grad or silent.requires_grad)


def test_views_taken_before_data_is_assigned_under_jit():
    w = fxt.nn.Parameter(fxt.arange(4.0))
    view = w[1:]

    @fx.jit
    def double():
        w.data = w.data * 2

    with pytest.warns(RuntimeWarning, match="while there are views of it"):
        double()
    assert view.tolist() == [1, 2, 3]
    assert w.tolist() == [0, 2, 4, 6]
