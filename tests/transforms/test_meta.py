"""Every transform on the meta device: shapes alone."""

import pytest

import fx


@fx.custom_vjp
def square(x):
    return x * x


square.defvjp(lambda x: (square(x), x), lambda x, ct: (2.0 * x * ct,))


class Cube(fx.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        return 3.0 * g * ctx.saved_tensors[0] ** 2


def f(x):
    return (fx.tanh(x) * x).sum()


def through_backward(x):
    x = (x * 1.0).requires_grad_()
    f(x).backward()
    return x.grad


TRANSFORMS = {
    "grad": (fx.grad(f), (3, 4)),
    "jvp": (lambda x: fx.jvp(f, (x,), (x,))[1], ()),
    "vmap of grad": (fx.vmap(fx.grad(f)), (3, 4)),
    "hessian": (fx.hessian(f), (3, 4, 3, 4)),
    "jacrev": (fx.jacrev(lambda x: x.sum(0)), (4, 3, 4)),
    "linearize": (lambda x: fx.linearize(f, x)[1](x), ()),
    "linear_transpose": (lambda x: fx.linear_transpose(lambda x: x.sum(0), x)(x[0])[0], (3, 4)),
    "checkpoint": (fx.grad(fx.checkpoint(f)), (3, 4)),
    "custom_vjp": (fx.vmap(fx.grad(lambda x: square(x).sum())), (3, 4)),
    "Function": (fx.vmap(fx.grad(lambda x: Cube.apply(x).sum())), (3, 4)),
    "backward": (through_backward, (3, 4)),
    "psum": (fx.vmap(lambda x: fx.psum(x, "i"), axis_name="i"), (3, 4)),
}


@pytest.mark.parametrize("case", TRANSFORMS.values(), ids=TRANSFORMS)
def test_shapes_without_values(case):
    transformed, shape = case
    with fx.device("meta"):
        out = transformed(fx.ones((3, 4)))
    assert (out.shape, out.device.type) == (shape, "meta")
    assert fx.eval_shape(transformed, fx.ones((3, 4))).shape == shape
    assert transformed(fx.ones((3, 4))).shape == shape
