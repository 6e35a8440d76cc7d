"""Solutions whose derivatives are those of the equation, not of the way to it.

What a user's function closes over is made an argument of it: the function is staged, so that it may
be differentiated with respect to it, and mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.errors import ArgumentError, TreeError
from fx.ops.convert import as_tensor
from fx.tensor import Tensor
from fx.transforms.control.bodies import stage_body
from fx.transforms.custom import custom_jvp, custom_vjp
from fx.transforms.forward import jvp
from fx.transforms.linear import linear_transpose
from fx.transforms.reverse import stop_gradient, vjp

Function = Callable[..., Any]


def _closed(name: str, function: Function, example: Any) -> tuple[Function, list[Tensor]]:
    """A function of its argument and of what it closes over, and that."""
    leaves, treedef = tree.flatten(example)
    leaves = [as_tensor(x) for x in leaves]

    def flat(*xs: Tensor) -> list[Tensor]:
        found, structure = tree.flatten(function(tree.unflatten(treedef, xs)))
        found = [as_tensor(x) for x in found]
        got, want = [(x.shape, x.dtype) for x in found], [(x.shape, x.dtype) for x in leaves]
        if structure != treedef or got != want:
            raise TreeError(
                f"{name}: the function gives {structure} of {got}; it was given, and has to give, "
                f"{treedef} of {want}"
            )
        return found

    body = stage_body(flat, [x.spec for x in leaves], name)
    if body.cells:
        raise ArgumentError(f"{name}: the function may not rebind cells or draw random numbers")

    def whole(x: Any, captured: list[Tensor]) -> Any:
        found = body.graph.run(*map(as_tensor, tree.leaves(x)), *captured)
        return tree.unflatten(treedef, found)

    return whole, body.captured


def custom_root(
    f: Function, initial_guess: Any, solve: Function, tangent_solve: Function, has_aux: bool = False
) -> Any:
    """A root of f, differentiated by the theorem of implicit functions.

    Args:
        f: takes a pytree of tensors and gives one like it; with respect to what it closes over
            there are derivatives.
        initial_guess: where to begin; there is no derivative with respect to it.
        solve: ``solve(f, initial_guess)``, the root; it need not be differentiable.
        tangent_solve: ``tangent_solve(g, y)``, the x with g(x) = y of a linear g; differentiable,
            linear in y.
        has_aux: whether ``solve`` gives a pair, of which the second is passed on.

    Returns:
        what ``solve`` gives.

    Raises:
        TreeError: if f gives something that is not like its argument.
        ArgumentError: if f rebinds a cell or draws.

    Source: ``jax.lax.custom_root``.

    Example:
        >>> import fx
        >>> def root(a):
        ...     newton = lambda f, x: fx.lax.fori_loop(0, 9, lambda _, x: x - f(x) / (2 * x), x)
        ...     return fx.lax.custom_root(
        ...         lambda x: x * x - a, fx.tensor(1.0), newton, lambda g, y: y / g(fx.tensor(1.0))
        ...     )
        >>> fx.grad(root)(fx.tensor(4.0))
        tensor(0.2500)
    """
    guess = tree.map(lambda x: stop_gradient(as_tensor(x)), initial_guess)
    whole, captured = _closed("lax.custom_root", f, guess)

    @custom_jvp
    def root(guess: Any, captured: list[Tensor]) -> Any:
        found = solve(lambda x: whole(x, captured), guess)
        return tuple(found) if has_aux else (found, ())

    @root.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        guess, captured = primals
        x, aux = root(guess, captured)
        right = jvp(lambda c: whole(x, c), (captured,), (tangents[1],))[1]
        along = lambda t: jvp(lambda x: whole(x, captured), (x,), (t,))[1]
        pushed = tree.map(lambda t: -t, tangent_solve(along, right))
        nothing = tree.map(lambda a: as_tensor(a) * 0, aux)
        return (x, aux), (pushed, nothing)

    found = root(guess, captured)
    return found if has_aux else found[0]


def custom_linear_solve(
    matvec: Function, b: Any, solve: Function, transpose_solve: Function | None = None,
    symmetric: bool = False, has_aux: bool = False,
) -> Any:  # fmt: skip
    """The x with matvec(x) = b, differentiated as that.

    Args:
        matvec: linear, of a pytree like ``b``; with respect to what it closes over there are
            derivatives.
        b: a pytree of tensors.
        solve: ``solve(matvec, b)``, the solution; it need not be differentiable.
        transpose_solve: ``transpose_solve(vecmat, ct)``, the same of the transposed function;
            derivatives need it unless ``symmetric``.
        symmetric: whether ``matvec`` is its own transpose; then ``solve`` serves for both.
        has_aux: whether the solvers give pairs, of which the second of ``solve`` is passed on.

    Returns:
        what ``solve`` gives.

    Raises:
        TreeError: if ``matvec`` gives something that is not like ``b``.
        ArgumentError: if it rebinds a cell or draws, or a derivative is asked for and there is no
            solver of the transposed system.

    Source: ``jax.lax.custom_linear_solve``.

    Example:
        >>> import fx
        >>> a = fx.tensor([[2.0, 1.0], [1.0, 3.0]])
        >>> def total(a):
        ...     dense = lambda f, b: fx.linalg.solve(fx.vmap(f, out_axes=1)(fx.eye(2)), b)
        ...     x = fx.lax.custom_linear_solve(lambda x: a @ x, fx.ones(2), dense, symmetric=True)
        ...     return x.sum()
        >>> fx.grad(total)(a)
        tensor([[-0.1600, -0.0800],
                [-0.0800, -0.0400]])
    """
    b = tree.map(as_tensor, b)
    whole, captured = _closed("lax.custom_linear_solve", matvec, b)
    other = solve if symmetric else transpose_solve

    def across(x: Any, captured: list[Tensor]) -> Any:
        return linear_transpose(lambda x: whole(x, captured), x)(x)[0]

    forward = _linear(whole, solve, has_aux)
    if other is None:
        backward = _refused
    else:
        backward = _linear(whole if symmetric else across, other, has_aux)
        backward.across = lambda: forward
    forward.across = lambda: backward
    found = forward(b, captured)
    return found if has_aux else found[0]


def _refused(*args: Any) -> Any:
    raise ArgumentError(
        "lax.custom_linear_solve: derivatives solve the transposed system; give transpose_solve, "
        "or symmetric=True"
    )


def _linear(along: Function, solve: Function, has_aux: bool) -> Any:
    """x of along(x, captured) = b, whose pullback solves the transposed system."""

    @custom_vjp
    def solution(b: Any, captured: list[Tensor]) -> Any:
        found = solve(lambda x: along(x, captured), b)
        return tuple(found) if has_aux else (found, ())

    def forwards(b: Any, captured: list[Tensor]) -> Any:
        found = solution(b, captured)
        return found, (found[0], captured)

    def backwards(kept: Any, ct: Any) -> Any:
        x, captured = kept
        back = solution.across()(ct[0], captured)[0]
        moved = vjp(lambda c: along(x, c), captured)[1](tree.map(lambda t: -t, back))[0]
        return back, moved

    solution.defvjp(forwards, backwards)
    return solution
