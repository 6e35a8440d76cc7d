"""``backward`` and ``grad``: the tape of ``.backward()``, as in ``torch.autograd``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.backward_pass import backward_pass
from fx.dtypes import COMPLEX, INEXACT
from fx.errors import BackwardError, DTypeError, ShapeError
from fx.levels import Tracer, check_live
from fx.ops.convert import as_tensor
from fx.prims.complex import repaired
from fx.prims.creation import constant_like, zeros_like_spec
from fx.spec import TensorSpec
from fx.tape import CELL, Leaf, Node, extra_of
from fx.tensor import Tensor, bare

Tensors = Tensor | Sequence[Tensor]


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of ``tensors`` to the ``grad`` of the leaves that they were computed from.

    Source: ``torch.autograd.backward``.

    Args:
        tensors: what to differentiate, a tensor or a sequence of them.
        grad_tensors: for each a cotangent of its shape and dtype; None for a scalar means 1. Those
            of complex tensors are PyTorch's, the conjugates of what ``fx.vjp`` takes.
        retain_graph: keep the graph for another pass; by default if ``create_graph``.
        create_graph: record the pass itself, so that the gradients can be differentiated.
        inputs: accumulate in these tensors only.

    Raises:
        BackwardError: if a tensor does not require grad, is not a scalar and came without a
            cotangent, or its graph was freed.
        ShapeError, DTypeError: if a cotangent does not fit its tensor.

    Example:
        >>> import fx
        >>> x = fx.tensor([1.0, 2.0], requires_grad=True)
        >>> fx.autograd.backward([(x * x).sum(), (3 * x).sum()])
        >>> x.grad
        tensor([5., 7.])
    """
    level, roots = _roots(_listed(tensors), grad_tensors, "backward", create_graph)
    for _, ct in roots:
        if ct.level > level:
            raise BackwardError(
                f"backward: the gradient {ct.spec!r} is a value of a transform that runs inside "
                f"the one whose leaves would keep it; use fx.autograd.grad, which returns what "
                f"it computes"
            )
    nodes = None
    if inputs is not None:
        nodes = [_input_node(x, level, "backward") for x in _listed(inputs)]
        if not nodes:
            raise BackwardError("backward: inputs is empty; leave it out to reach every leaf")
        for node in nodes:
            if type(node) is not Leaf:
                extra_of(node).retain = True
    backward_pass(
        roots,
        level=level,
        keep=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=nodes,
        prune=nodes is not None,
    )


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, returned and added nowhere.

    Source: ``torch.autograd.grad``.

    Args:
        outputs: what to differentiate, a tensor or a sequence of them.
        inputs: with respect to what: tensors that require grad, leaves or not.
        grad_outputs: for each output a cotangent of its shape and dtype; None for a scalar is 1.
        retain_graph: keep the graph for another pass; by default if ``create_graph``.
        create_graph: record the pass itself, so that the results can be differentiated.
        only_inputs: PyTorch's; has no effect.
        allow_unused: give None for an input that ``outputs`` do not depend on.
        is_grads_batched: ``grad_outputs`` have a leading axis of cotangents, and so has the result.
        materialize_grads: give zeros for such an input.

    Returns:
        one gradient an input.

    Raises:
        BackwardError: if a tensor does not require grad or an input was not used.
        ShapeError, DTypeError: if a cotangent does not fit its output.

    Example:
        >>> import fx
        >>> x = fx.tensor(3.0, requires_grad=True)
        >>> (first,) = fx.autograd.grad(x * x * x, x, create_graph=True)
        >>> fx.autograd.grad(first, x)
        (tensor(18.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "grad: materialize_grads=True gives zeros to unused inputs; leave out allow_unused"
        )
    sources, targets = _listed(outputs), _listed(inputs)
    keep = create_graph if retain_graph is None else retain_graph

    def pull(*cts: Any) -> tuple[Any, ...]:
        level, roots = _roots(sources, cts, "grad", create_graph)
        nodes = [_input_node(x, level, "grad") for x in targets]
        found = backward_pass(
            roots, level=level, keep=keep, create_graph=create_graph, accumulate=False,
            inputs=nodes, prune=True,
        )  # fmt: skip
        out = [_found(repaired(found.get(n)), x, i) for i, (n, x) in enumerate(zip(nodes, targets))]
        given = {id(ct) for ct in cts}
        for i, g in enumerate(out):  # each is an object of its own, that may be written to
            if type(g) is Tensor and (id(g) in given or any(g is h for h in out[:i])):
                out[i] = g.__copy__()
        return tuple(out)

    def _found(gradient: Tensor | None, x: Tensor, i: int) -> Tensor | None:
        if gradient is not None:
            return gradient
        if materialize_grads:
            return zeros_like_spec(x.spec)
        if allow_unused:
            return None
        raise BackwardError(
            f"grad: the outputs do not depend on input {i}, {x.spec!r}; allow_unused=True gives "
            f"None for it, materialize_grads=True gives zeros"
        )

    cts = [None] * len(sources) if grad_outputs is None else _listed(grad_outputs)
    if not is_grads_batched:
        return pull(*cts)
    from fx.transforms.batching import vmap

    return vmap(pull, randomness="same")(*cts)


def _listed(tensors: Any) -> list[Any]:
    return (
        [tensors]
        if isinstance(tensors, Tensor) or not hasattr(tensors, "__iter__")
        else list(tensors)
    )


def _roots(
    tensors: list[Any], cts: Any, what: str, create_graph: bool
) -> tuple[int, list[tuple[Node, Tensor]]]:
    """The tape of ``tensors``, and their nodes with their cotangents."""
    given = [None] * len(tensors) if cts is None else _listed(cts)
    if len(given) != len(tensors):
        raise BackwardError(
            f"{what}: {len(tensors)} tensors came with {len(given)} gradients; give one for each"
        )
    levels = set()
    roots = []
    for x, ct in zip(tensors, given):
        if not isinstance(x, Tensor):
            raise TypeError(f"{what} takes tensors, got {type(x).__name__}")
        if x.level == CELL:
            x = x.read()
        level, node = tape_of(x, what)
        levels.add(level)
        roots.append((node, cotangent_for(x, ct, level, what, create_graph)))
    if len(levels) != 1:
        raise BackwardError(
            f"{what}: the tensors belong to different transforms; call it once for each"
            if levels
            else f"{what}: got no tensors"
        )
    return levels.pop(), roots


def tape_of(x: Tensor, what: str) -> tuple[int, Node]:
    """The level and the node of a tensor on the tape of ``.backward()``.

    Raises:
        BackwardError: if it has none there.
    """
    if isinstance(x, Tracer):
        check_live(x)
        if x.level & 1:
            return x.level, x._node
        raise BackwardError(_only_the_transform(x, what))
    if x._node is None:
        raise BackwardError(
            f"{what}: {x.spec!r} does not require grad: nothing that it was computed from does, or "
            f"it was computed inside fx.no_grad(). Write x = x.requires_grad_() on what it should "
            f"be differentiated by, before it is computed"
        )
    return 0, x._node


def _only_the_transform(x: Tracer, what: str) -> str:
    """What to do about a tensor that is recorded, if at all, outside of its transform."""
    name = x.transform
    below: Any = x
    while isinstance(below, Tracer):
        below = below.value
        if below._node is not None and (below.level & 1 or below.level < 0):
            leaf = _first_leaf(below._node)
            fix = (
                "It has one gradient for all lanes: call backward() outside, on a result of vmap, "
                "or take a gradient per lane with fx.vmap(fx.grad(f), in_axes=(None, 0))"
                if name == "vmap"
                else "Call backward() outside, on a result, or differentiate by it with fx.grad"
            )
            return (
                f"{what} inside {name} reaches {leaf}, which belongs outside of {name}, as does "
                f"every tensor that is not computed from what {name} passes in. {fix}"
            )
    return (
        f"{what}: {TensorSpec(x.shape, x.dtype)!r} inside {name} does not require grad, save for "
        f"{name}'s own purposes. Inside a transform requires_grad_() returns a new tensor; keep "
        f"it: x = x.requires_grad_()"
    )


def _first_leaf(node: Node) -> str:
    """The leaf that is found first on the way back from ``node``, in words."""
    seen = {node}
    stack = [node]
    while stack:
        node = stack.pop()
        if type(node) is Leaf:
            variable = node.variable
            if variable is None:
                continue
            name = getattr(variable, "name", "")
            return f"the leaf {f'{name!r} ' if name else ''}{variable.spec!r}"
        fresh = [p for p in node.parents if p is not None and p not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return "a leaf"


def cotangent_for(x: Tensor, ct: Any, level: int, what: str, create_graph: bool) -> Tensor:
    """The cotangent that a pass starts with at ``x``.

    Raises:
        BackwardError: if none was given and ``x`` is not a scalar.
        ShapeError, DTypeError: if the one given does not fit.
    """
    shape = x.shape
    if ct is None:
        if x.size != 1:
            hint = (
                "y.backward(gradient=fx.ones_like(y))"
                if what == "backward"
                else "fx.autograd.grad(y, x, grad_outputs=fx.ones_like(y))"
            )
            raise BackwardError(
                f"{what}: a tensor of shape {shape} is not a scalar, so it has no single gradient. "
                f"Reduce it, for example y.sum(), or weigh its elements: {hint}"
            )
        if x.dtype in COMPLEX:
            raise BackwardError(
                f"{what}: a result of dtype {x.dtype.name} has no single gradient; differentiate a "
                f"real number, for example fx.real(y)"
            )
        one = constant_like(1.0, x)
        return zeros_like_spec(x.spec) + one if shape else bare(one)
    if not isinstance(ct, Tensor):
        ct = as_tensor(ct, dtype=x.dtype, device=x.device)
    if ct.level == CELL:
        ct = ct.read()
    if ct.shape != shape:
        raise ShapeError(
            f"{what}: the gradient has shape {ct.shape}, but its tensor has shape {shape}; "
            f"write gradient=fx.ones_like(y) for a sum"
        )
    if ct.dtype != x.dtype:
        raise DTypeError(
            f"{what}: the gradient has dtype {ct.dtype.name}, but its tensor has {x.dtype.name}; "
            f"write gradient.astype(fx.{x.dtype.name})"
        )
    if not create_graph:  # it must not bring a graph of its own into the results
        if level and ct.level == level:
            ct = ct.value
        elif type(ct) is Tensor:  # an object of its own, for it may become a gradient
            ct = bare(ct)
    return repaired(ct)  # type: ignore[no-any-return]


def _input_node(x: Any, level: int, what: str) -> Node:
    if not isinstance(x, Tensor):
        raise TypeError(f"{what}: inputs must be tensors, got {type(x).__name__}")
    if x.level == CELL:
        x = x.read()
    if isinstance(x, Tracer):
        check_live(x)
    own = x.level if x.level > 0 else 0
    node: Node | None = x._node
    if node is None or (own and not own & 1):
        if isinstance(x, Tracer):
            raise BackwardError(_only_the_transform(x, what))
        if x.dtype not in INEXACT:
            raise DTypeError(
                f"{what}: an input of dtype {x.dtype.name} has no gradient; only floating "
                f"and complex tensors can require gradients: write x = x.astype(fx.float32)"
            )
        raise BackwardError(
            f"{what}: the input {x.spec!r} does not require grad; write x.requires_grad_() before "
            f"it is used"
        )
    if own != level:
        raise BackwardError(
            f"{what}: the input {x.spec!r} and the outputs belong to different transforms; make "
            f"the leaf where they are computed, x = x.requires_grad_()"
        )
    return node


def backward_from(
    self: Tensor,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of this tensor to the ``grad`` of its leaves; see ``fx.autograd.backward``.

    Example:
        >>> import fx
        >>> x = fx.tensor(3.0, requires_grad=True)
        >>> (x * x).backward()
        >>> x.grad
        tensor(6.)
    """
    if gradient is None and inputs is None and type(self) is Tensor:
        node, shape = self._node, self._shape
        if node is not None and shape == () and self._dtype.kind != "c":  # a loss
            keep = create_graph if retain_graph is None else retain_graph
            one = bare(constant_like(1.0, self))
            backward_pass(((node, one),), level=0, keep=keep, create_graph=create_graph)
            return
    backward(self, None if gradient is None else [gradient], retain_graph, create_graph, inputs)
