"""``cond`` and ``switch``: one of several functions, chosen by a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx import tree
from fx.dtypes import INTEGRAL, bool_, promote_types
from fx.errors import DTypeError, ShapeError, TreeError
from fx.frames import user_line
from fx.graph.ir import Graph, input_value
from fx.ops.convert import as_tensor
from fx.spec import TensorSpec
from fx.tape import CELL
from fx.tensor import Tensor
from fx.transforms.control import cond_primitive
from fx.transforms.control.bodies import Body, hold, stage_body
from fx.transforms.control.graphs import specs_of
from fx.transforms.control.leaves import (
    as_leaf,
    cast,
    check_callable,
    described,
    flat,
    is_concrete,
    path_of,
)


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fun(*operands)`` where ``pred`` holds, else ``false_fun(*operands)``.

    With a value that Python can ask for this is an ``if``. Inside ``jit``, and for a predicate that
    differs between the lanes of ``vmap``, both functions are staged, and what they close over is
    differentiated and mapped as well. A lane gets the result and the gradient of its own branch
    alone: no NaN comes out of the other one.

    Args:
        pred: bool ().
        true_fun: called where ``pred`` is true.
        false_fun: called where it is false; its result has the structure, the shapes and the dtypes
            of the other's.
        operands: pytrees of tensors.

    Raises:
        DTypeError: if ``pred`` is not bool.
        ShapeError: if ``pred`` is not a scalar.
        TreeError, ShapeError, DTypeError: if the results differ, naming the leaf.

    Source: ``jax.lax.cond``.

    Example:
        >>> import fx
        >>> f = lambda x: fx.cond(x > 1, lambda x: fx.sqrt(x - 1), lambda x: 0 * x, x)
        >>> fx.vmap(fx.grad(f))(fx.tensor([0.0, 5.0]))
        tensor([0.0000, 0.2500])
    """
    check_callable(true_fun, "cond", "true_fun")
    check_callable(false_fun, "cond", "false_fun")
    if type(pred) is bool:
        return _taken(true_fun if pred else false_fun, operands)
    pred = _predicate(pred)
    if is_concrete(pred):
        return _taken(true_fun if bool(pred) else false_fun, operands)
    return _bind("cond", pred, (false_fun, true_fun), operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an index out of range takes the first or the last.

    Args:
        index: an integer ().
        branches: functions whose results have one structure, shapes and dtypes.
        operands: pytrees of tensors.

    Raises:
        DTypeError: if ``index`` is not an integer.
        ValueError: if there are no branches.
        TreeError, ShapeError, DTypeError: if the results differ, naming the leaf.

    Source: ``jax.lax.switch``.

    Example:
        >>> import fx
        >>> fx.vmap(lambda i: fx.switch(i, [fx.sin, fx.cos, fx.exp], fx.tensor(0.0)))(fx.arange(3))
        tensor([0., 1., 1.])
    """
    if not isinstance(branches, tuple | list):
        raise TypeError(
            f"switch: branches must be a list of functions, got {type(branches).__name__}; write "
            f"fx.switch(i, [f, g], x)"
        )
    branches = tuple(branches)
    if not branches:
        raise ValueError("switch: there are no branches; give a list of at least one function")
    for i, branch in enumerate(branches):
        check_callable(branch, "switch", f"branches[{i}]")
    index = as_tensor(index)
    index = index.read() if index.level == CELL else index
    if index.dtype not in INTEGRAL:
        raise DTypeError(
            f"switch: the index must be an integer, got {index.dtype.name}; write "
            f"i.astype(fx.int64), or fx.cond for a bool"
        )
    if index.shape != ():
        raise ShapeError(_NOT_SCALAR.format("switch: the index", index.shape))
    if is_concrete(index):
        return _taken(branches[min(max(int(index), 0), len(branches) - 1)], operands)
    if len(branches) == 1:
        return _taken(branches[0], operands)
    return _bind("switch", index, branches, operands)


_NOT_SCALAR = (
    "{} must be a scalar, got shape {}; reduce it with .any() or .all(), choose element by element "
    "with fx.where, or map the function with fx.vmap"
)


def _predicate(pred: Any) -> Tensor:
    pred = as_leaf(pred, "cond: the predicate")
    if pred.dtype != bool_:
        raise DTypeError(
            f"cond: the predicate must be bool, got {pred.spec!r}; compare it: pred != 0"
        )
    if pred.shape != ():
        raise ShapeError(_NOT_SCALAR.format("cond: the predicate", pred.shape))
    return pred


def _taken(branch: Callable[..., Any], operands: Any) -> Any:
    out = branch(*operands)
    return out if isinstance(out, Tensor) else tree.map(_result, out)


def _result(leaf: Any) -> Tensor:
    return leaf if isinstance(leaf, Tensor) else as_leaf(leaf, "a result of a branch")


class _Branch:
    """A branch that was staged."""

    body: Body
    treedef: Any
    weak: list[bool]

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The specs of the results, without those of cells."""
        return self.body.graph.specs[: len(self.weak)]


def _bind(what: str, index: Tensor, functions: Sequence[Callable[..., Any]], operands: Any) -> Any:
    """Stage the branches and bind the primitive."""
    leaves, treedef = tree.flatten(operands)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    xs = [as_leaf(leaves[i], what) for i in places]
    dtypes: list[Any] = [None]

    def staged(function: Callable[..., Any]) -> _Branch:
        branch = _Branch()

        def run(*values: Tensor) -> list[Tensor]:
            given = list(leaves)
            for i, x in zip(places, values):
                given[i] = x
            out = function(*tree.unflatten(treedef, given))
            outs, branch.treedef, branch.weak = flat(out, f"{what}: a result of a branch")
            if dtypes[0] is not None:
                outs = [cast(o, d) if w else o for o, w, d in zip(outs, branch.weak, dtypes[0])]
            return outs

        branch.body = stage_body(run, specs_of(xs), f"a branch of {what}", True)
        return branch

    branches = [staged(f) for f in functions]
    _check_structures(what, functions, branches)
    wanted = _common(branches)
    if any(b.specs[i].dtype != d for b in branches for i, d in enumerate(wanted)):
        dtypes[0] = wanted
        branches = [
            staged(f) if any(s.dtype != d for s, d in zip(b.specs, wanted)) and any(b.weak)
            else b
            for f, b in zip(functions, branches)
        ]  # fmt: skip
    _check_specs(what, functions, branches)
    graphs, captured, cells = _shared(branches, len(xs))
    found = cond_primitive.cond(index, *xs, *captured, branches=graphs)
    count = len(wanted)
    hold(cells, found[count:])
    return tree.unflatten(branches[0].treedef, found[:count])


def _common(branches: list[_Branch]) -> list[Any]:
    """The dtype of each result: that of the branches where it is no Python number."""
    out = []
    for i, spec in enumerate(branches[0].specs):
        strong = [b.specs[i].dtype for b in branches if not b.weak[i]]
        dtype = strong[0] if strong else spec.dtype
        if not strong:
            for b in branches[1:]:
                dtype = promote_types(dtype, b.specs[i].dtype)
        out.append(dtype)
    return out


def _check_structures(what: str, functions: Any, branches: list[_Branch]) -> None:
    first = branches[0]
    for function, b in zip(functions[1:], branches[1:]):
        if b.treedef != first.treedef:
            raise TreeError(
                f"{what}: {described(functions[0])} returns the structure {first.treedef}, and "
                f"{described(function)} returns {b.treedef}; return the same from every branch "
                f"(called at {user_line()})"
            )


def _check_specs(what: str, functions: Any, branches: list[_Branch]) -> None:
    first = branches[0]
    for function, b in zip(functions[1:], branches[1:]):
        for i, (x, y) in enumerate(zip(first.specs, b.specs)):
            if x == y:
                continue
            fix = (
                f"write .astype(fx.{promote_types(x.dtype, y.dtype).name}) in both"
                if x.shape == y.shape
                else f"give both one shape, for example with fx.broadcast_to(x, {y.shape})"
            )
            raise (ShapeError if x.shape != y.shape else DTypeError)(
                f"{what}: {path_of(first.treedef, i, 'result')} is {x!r} from "
                f"{described(functions[0])} and {y!r} from {described(function)}; {fix} "
                f"(called at {user_line()})"
            )


def _shared(branches: list[_Branch], count: int) -> tuple[tuple[Graph, ...], list[Tensor], Any]:
    """The graphs with the same inputs and outputs, and what stands behind the operands and results.

    Behind the operands comes what any branch captured, behind the results what the cells hold that
    any branch rebinds.
    """
    every: dict[Any, Tensor] = {}
    cells: dict[int, Any] = {}
    for b in branches:
        every.update(zip(b.body.keys, b.body.captured))
        cells.update({id(cell): cell for cell in b.body.cells})
    graphs = []
    for b in branches:
        graph = b.body.graph
        own = dict(zip(b.body.keys, graph.inputs[count:]))
        rest = {k: own[k] if k in own else input_value(x.spec) for k, x in every.items()}
        last = len(graph.outputs) - len(b.body.cells)
        new = dict(zip([id(cell) for cell in b.body.cells], graph.outputs[last:]))
        held = [new[k] if k in new else rest["cell", k] for k in cells]
        inputs = [*graph.inputs[:count], *rest.values()]
        graphs.append(Graph(inputs, graph.nodes, [*graph.outputs[:last], *held], graph.name))
    return tuple(graphs), list(every.values()), list(cells.values())
