"""What users of gradients trip over, the worst first: wrong numbers in silence, then errors.

Each either works as one would hope, or is refused with the line to write.
"""

import contextlib
import threading

import numpy as np
import pytest

import fx
from fx.errors import (
    BackwardError,
    DTypeError,
    InPlaceError,
    ShapeError,
)

X = [1.0, -2.0, 3.0]


@pytest.fixture
def x():
    return fx.tensor(X, requires_grad=True)


@contextlib.contextmanager
def says(error, *words):
    with pytest.raises(error) as info:
        yield
    for word in words:
        assert word in str(info.value), f"{word!r} is not in: {info.value}"


# what could be wrong in silence -----------------------------------------------------------------


def test_a_scalar_that_is_a_leaf_does_not_poison_every_equal_number():
    half = fx.asarray(0.5).requires_grad_()
    y = fx.tensor(3.0, requires_grad=True)
    (y * 0.5).backward()
    assert half.grad is None and y.grad.item() == 0.5


def test_gradients_add_up_until_they_are_dropped(x):
    for expected in (1.0, 2.0):
        x.sum().backward()
        assert x.grad.tolist() == [expected] * 3
    x.grad = None
    x.sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_a_leaf_that_is_rebound_is_no_leaf_any_more(x):
    x = x - 0.1 * x
    x.sum().backward()
    assert x.grad is None and not x.is_leaf


def test_requires_grad_inside_a_transform_is_a_new_tensor():
    def forgotten(x):
        x.requires_grad_()
        (x * x).backward()

    def kept(x):
        x = x.requires_grad_()
        (x * x).backward()
        return x.grad

    for transform in (fx.vmap, fx.grad):
        with says(BackwardError, "backward", "keep it: x = x.requires_grad_()"):
            transform(forgotten)(fx.tensor(X) if transform is fx.vmap else fx.tensor(1.0))
    with says(BackwardError, "inside jvp", "x = x.requires_grad_()"):
        fx.jvp(forgotten, (fx.tensor(1.0),), (fx.tensor(1.0),))
    assert fx.vmap(kept)(fx.tensor(X)).tolist() == [2.0, -4.0, 6.0]


def test_setting_requires_grad_inside_a_transform_is_refused():
    def f(x):
        x.requires_grad = True
        return x

    with says(InPlaceError, "inside vmap cannot be changed", "x = x.requires_grad_()"):
        fx.vmap(f)(fx.tensor(X))


def test_backward_in_vmap_to_a_leaf_outside_names_the_leaf(x):
    def f(v):
        (v * x).sum().backward()
        return v

    with says(
        BackwardError,
        "backward inside vmap reaches the leaf float32[3]",
        "call backward() outside, on a result of vmap",
        "fx.vmap(fx.grad(f), in_axes=(None, 0))",
    ):
        fx.vmap(f)(fx.ones((2, 3)))
    weight = fx.nn.Linear(3, 1).weight
    weight.name = "fc.weight"
    with says(BackwardError, "reaches the leaf 'fc.weight' float32[1,3]"):
        fx.vmap(lambda v: (weight @ v).sum().backward())(fx.ones((2, 3)))
    with says(BackwardError, "backward inside grad reaches the leaf float32[3]", "fx.grad"):
        fx.grad(f)(fx.ones(3))
    assert x.grad is None
    fx.vmap(lambda v: (v * x).sum())(fx.ones((2, 3))).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_plain_backward_inside_a_transform_is_what_it_says(x):
    def f(v):
        (x * x).sum().backward()
        return v * x.grad

    assert fx.vmap(f)(fx.ones((2, 3))).tolist() == [[2.0, -4.0, 6.0]] * 2


def test_in_place_operations_are_refused_with_the_line_to_write(x):
    with says(InPlaceError, "x = x.at["):
        x[0] = 1.0
    with says(InPlaceError, "x = x + "):
        x.add_(1.0)
    with says(InPlaceError, "x = x.detach()"):
        x.detach_()


def test_a_gradient_of_a_wrong_shape_or_dtype(x):
    y = x * 2.0
    with says(ShapeError, "backward: the gradient has shape (2,), but its tensor has shape (3,)"):
        y.backward(fx.ones(2))
    with says(DTypeError, "dtype float64, but its tensor has float32", "astype(fx.float32)"):
        y.backward(fx.ones(3, dtype=fx.float64))
    with says(ShapeError, "grad has shape (2,), but its tensor has (3,)"):
        x.grad = fx.ones(2)
    with says(DTypeError, "grad has dtype float64, but its tensor has float32"):
        x.grad = fx.ones(3, dtype=fx.float64)
    with says(TypeError, "grad must be a tensor or None, got float"):
        x.grad = 1.0
    with says(BackwardError, "2 tensors came with 1 gradients"):
        fx.autograd.backward([y, y], [fx.ones(3)])


def test_a_hook_that_returns_the_wrong_thing(x):
    def wrong(g):
        return g.sum()

    x.register_hook(wrong)
    with says(BackwardError, "the hook 'wrong' returned float32[] for a gradient float32[3]"):
        (x * 2.0).sum().backward()


# what is said about backward --------------------------------------------------------------------


def test_backward_of_what_is_no_scalar(x):
    with says(
        BackwardError,
        "a tensor of shape (3,) is not a scalar",
        "y.sum()",
        "y.backward(gradient=fx.ones_like(y))",
    ):
        (x * 2.0).backward()
    with says(BackwardError, "fx.autograd.grad(y, x, grad_outputs=fx.ones_like(y))"):
        fx.autograd.grad(x * 2.0, x)
    (x * 2.0).backward(gradient=fx.ones_like(x))
    assert x.grad.tolist() == [2.0] * 3


def test_backward_of_what_does_not_require_grad(x):
    with says(BackwardError, "float32[] does not require grad", "x = x.requires_grad_()"):
        fx.tensor(X).sum().backward()
    with fx.no_grad():
        y = x.sum()
    with says(BackwardError, "it was computed inside fx.no_grad()"):
        y.backward()
    with says(BackwardError, "float32[] does not require grad"):
        x.detach().sum().backward()


def test_a_second_backward_says_how_to_keep_the_graph(x):
    y = (x * x).sum()
    y.backward()
    with says(BackwardError, "freed by an earlier backward pass", "y.backward(retain_graph=True)"):
        y.backward()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    z = x * x  # shared by two losses
    z.sum().backward()
    with says(BackwardError, "retain_graph=True"):
        (z * z).sum().backward()


def test_integers_have_no_gradient():
    with says(DTypeError, "only floating and complex tensors can require gradients, got int64[2]"):
        fx.tensor([1, 2]).requires_grad_()
    with says(DTypeError, "can require grad", "float32"):
        fx.tensor([1, 2], requires_grad=True)
    with says(DTypeError, "x.astype(fx.float32)"):
        fx.grad(lambda x: (x * x).sum())(fx.tensor([1, 2]))
    with says(DTypeError, "an input of dtype int64 has no gradient"):
        fx.autograd.grad(fx.ones(1, requires_grad=True).sum(), fx.tensor([1]))
    i = fx.tensor([2, 0, 1])
    x = fx.tensor(X, requires_grad=True)
    x[i].sum().backward()  # but they may be inputs
    assert x.grad.tolist() == [1.0] * 3


def test_complex_results_have_no_single_gradient():
    z = fx.tensor(X, requires_grad=True) * 1.0j
    with says(BackwardError, "a result of dtype complex64", "fx.real(y)"):
        (z * z).sum().backward()
    with says(BackwardError, "must return floating tensors, got complex64[]", "holomorphic=True"):
        fx.grad(lambda z: (z * z).sum())(z.detach())


def test_unused_inputs_are_named(x):
    z = fx.ones(2, requires_grad=True)
    with says(BackwardError, "do not depend on input 1, float32[2]", "allow_unused=True"):
        fx.autograd.grad(x.sum(), [x, z])
    with says(BackwardError, "the input float32[2] does not require grad"):
        fx.autograd.grad(x.sum(), fx.ones(2))
    with says(ValueError, "leave out allow_unused"):
        fx.autograd.grad(x.sum(), z, allow_unused=False, materialize_grads=True)
    with says(BackwardError, "inputs is empty"):
        x.sum().backward(inputs=[])


def test_tensors_of_different_transforms_do_not_mix(x):
    def f(v):
        v = v.requires_grad_()
        return fx.autograd.grad((v * x).sum(), x)

    with says(BackwardError, "the input float32[3] and the outputs belong to different transforms"):
        fx.vmap(f)(fx.ones((2, 3)))

    def g(v):
        v = v.requires_grad_()
        fx.autograd.backward([v.sum(), x.sum()])

    with says(BackwardError, "belong to different transforms; call it once for each"):
        fx.vmap(g)(fx.ones((2, 3)))
    with says(BackwardError, "keep it: x = x.requires_grad_()"):
        fx.grad(lambda v: fx.autograd.grad((v * v).sum(), v)[0].sum())(fx.ones(3))


def test_a_gradient_from_inside_a_transform_does_not_get_into_a_leaf_outside(x):
    y = x * 2.0
    with says(BackwardError, "use fx.autograd.grad, which returns"):
        fx.vmap(lambda v: y.backward(v))(fx.ones((2, 3)))

    def assign(v):
        x.grad = v
        return v

    with says(BackwardError, "inside vmap, and the leaf lives longer"):
        fx.vmap(assign)(fx.ones((2, 3)))
    assert x.grad is None


def test_marks_only_come_off_leaves(x):
    y = x * 2.0
    with says(
        BackwardError, "only a leaf can stop requiring grad", "MulBackward0", "y" and "x.detach()"
    ):
        y.requires_grad_(False)
    with says(BackwardError, "was computed from others", "x.retain_grad()"):
        y.grad = fx.ones(3)
    with says(BackwardError, "does not", "x.requires_grad_()"):
        fx.ones(3).grad = fx.ones(3)
    with says(BackwardError, "does not require grad", "x = x.requires_grad_() first"):
        fx.ones(3).register_hook(print)
    with says(BackwardError, "takes leaves, and float32[3] was computed by MulBackward0"):
        y.register_post_accumulate_grad_hook(print)
    with says(BackwardError, "does not require grad"):
        fx.ones(3).retain_grad()


def test_what_is_no_tensor():
    with says(TypeError, "backward takes tensors, got float"):
        fx.autograd.backward(1.0)
    with says(TypeError, "grad: inputs must be tensors, got int"):
        fx.autograd.grad(fx.ones((), requires_grad=True) * 1.0, [3])


# threads ----------------------------------------------------------------------------------------


def test_a_transform_in_one_thread_does_not_disturb_another():
    stop, failures = threading.Event(), []

    def work():
        while not stop.is_set():
            g = fx.vmap(fx.grad(lambda x: x**3))(fx.tensor(X)).tolist()
            if not np.allclose(g, [3.0, 12.0, 27.0]):
                failures.append(g)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(100):
        with fx.no_grad():
            assert fx.grad(lambda x: (x * x).sum())(fx.tensor(X)).tolist() == [2.0, -4.0, 6.0]
        x = fx.tensor(X, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, -4.0, 6.0]
    stop.set()
    thread.join()
    assert not failures
