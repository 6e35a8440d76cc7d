"""Transforms: functions that take a function and return one."""

from fx.ops.operands import offered as _offered
from fx.transforms.batching import vmap
from fx.transforms.checkpoint import checkpoint
from fx.transforms.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
)
from fx.transforms.control import (
    associative_scan,
    cond,
    fori_loop,
    map,
    scan,
    switch,
    while_loop,
)
from fx.transforms.custom import custom_jvp, custom_vjp
from fx.transforms.forward import jvp
from fx.transforms.jacobians import hessian, hvp, jacfwd, jacrev
from fx.transforms.jitting import jit
from fx.transforms.linear import linear_transpose, linearize
from fx.transforms.reverse import grad, stop_gradient, value_and_grad, vjp

__all__ = _offered(globals())
