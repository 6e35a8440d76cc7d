"""Hooks of leaves that raise: what a backward pass leaves behind, against PyTorch."""

import pytest

import fx.torch as face
from fx import jit

torch = pytest.importorskip("torch")


def passes(m, raising, wrap=lambda f: f):
    """Two passes over three leaves with hooks that step: states, and the hooks that ran."""
    leaves = [m.nn.Parameter(m.ones(2) * (i + 1)) for i in range(3)]
    ran, found = [], []

    def hook_of(i):
        def hook(leaf):
            ran.append(i)
            if i == raising:
                raise ValueError("a hook")
            with m.no_grad():
                leaf.sub_(leaf.grad)
            leaf.grad = None

        return hook

    for i, leaf in enumerate(leaves):
        leaf.register_post_accumulate_grad_hook(hook_of(i))

    @wrap
    def step():
        (leaves[0] * 2 * leaves[1] * leaves[2]).sum().backward()

    for _ in range(2):
        try:
            step()
        except ValueError as error:
            found.append(str(error))
        found.append([(p.tolist(), None if p.grad is None else p.grad.tolist())
                      for p in leaves])  # fmt: skip
        found.append([*ran])
    return found


@pytest.mark.parametrize("raising", [0, 1, 2, None])
def test_leaves_before_the_one_whose_hook_raises_are_whole(raising):
    want = passes(torch, raising)
    assert passes(face, raising) == want
    assert passes(face, raising, jit) == want
