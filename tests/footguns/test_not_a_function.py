"""A transform that was given a value: fx.grad(f(x)) where fx.grad(f)(x) was meant."""

import pytest

import fx

X = fx.tensor(1.0)
CALLS = {
    "grad": lambda y: fx.grad(y),
    "value_and_grad": lambda y: fx.value_and_grad(y),
    "vjp": lambda y: fx.vjp(y, X),
    "jvp": lambda y: fx.jvp(y, (X,), (X,)),
    "vmap": lambda y: fx.vmap(y),
    "jacfwd": lambda y: fx.jacfwd(y),
    "jacrev": lambda y: fx.jacrev(y),
    "hessian": lambda y: fx.hessian(y),
    "hvp": lambda y: fx.hvp(y, (X,), (X,)),
    "linearize": lambda y: fx.linearize(y, X),
    "linear_transpose": lambda y: fx.linear_transpose(y, X),
    "checkpoint": lambda y: fx.checkpoint(y),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_value_in_place_of_a_function(name):
    at_once = name in ("vjp", "jvp", "hvp", "linearize", "linear_transpose")
    line = rf"fx.{name}\(f, ...\)" if at_once else rf"fx.{name}\(f\)\(x\)"
    expected = rf"^{name} takes a function, got float32\[\] of type Tensor; write {line} with the"
    with pytest.raises(TypeError, match=expected):
        CALLS[name](fx.sin(X))


@pytest.mark.parametrize("name", ["jvp", "hvp"])
def test_primals_that_are_no_tuple(name):
    with pytest.raises(TypeError, match=rf"{name} takes primals and tangents as tuples"):
        getattr(fx, name)(fx.sin, X, X)
