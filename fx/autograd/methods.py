"""The autograd methods of Tensor: requires_grad, grad, backward, detach, hooks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import ref

from fx.autograd.engine import backward_from
from fx.away import Away, gradient_of
from fx.config import modes
from fx.errors import BackwardError, DTypeError, InPlaceError, ShapeError
from fx.frames import is_internal
from fx.gradients import at_rest, check_differentiable, leaves, rest, tell, woken
from fx.levels import Tracer, check_live, live
from fx.prims.compare import stop_gradient
from fx.tape import CELL, Leaf, Node, Select, extra_of, grad_tracer
from fx.tensor import Tensor, new_tensor

Hook = Callable[[Tensor], Tensor | None]
_keys = count().__next__


class RemovableHandle:
    """What registering a hook returns: ``remove()`` takes the hook off again."""

    __slots__ = ("_hooks", "id")

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.id = _keys()
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


# requires_grad ----------------------------------------------------------------------------------


def _get_requires_grad(self: Tensor) -> bool:
    """Whether gradients are recorded for this tensor, by ``.backward()`` or by a transform."""
    if type(self) is Tensor:
        return self._node is not None
    node = _innermost_node(self)
    if node is None and live:  # without levels nothing is staged
        _asked_of_history()
    return node is not None


def _asked_of_history() -> None:
    """A user asks whether a value that is staged has a history, which it may have elsewhere."""
    stage, frame = modes.stage, sys._getframe(2)
    if stage is not None and not is_internal(frame.f_code.co_filename):
        stage.asked_of_history()


def _set_requires_grad(self: Tensor, flag: bool) -> None:
    made_inside = modes.stage is not None and type(self) is Tensor and flag and self._node is None
    if isinstance(self, Tracer) or made_inside:
        raise InPlaceError(
            f"a tensor inside {getattr(self, 'transform', 'jit')} cannot be changed; "
            f"write x = x.requires_grad_()"
        )
    node = self._node
    if node is not None and type(node) is not Leaf:
        raise BackwardError(_NOT_A_LEAF.format(node.name()))
    requires_grad_(self, flag)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Let ``.backward()`` accumulate a gradient for this tensor; write ``x = x.requires_grad_()``.

    A tensor outside of transforms is marked itself, as in PyTorch. A value inside a transform
    cannot be: the result is a new tensor, a leaf of this transform's own tape, and what is computed
    from it is still differentiated by the transform around it.

    Args:
        requires_grad: False takes the mark off.

    Raises:
        DTypeError: if the tensor is neither floating nor complex.
        BackwardError: if the mark is to be taken off a tensor that is computed from others.

    Example:
        >>> import fx
        >>> def slope(x):
        ...     x = x.requires_grad_()
        ...     (x * x * x).backward()
        ...     return x.grad
        >>> fx.vmap(slope)(fx.tensor([1.0, 2.0]))
        tensor([ 3., 12.])
        >>> fx.grad(slope)(fx.tensor(2.0))
        tensor(12.)
    """
    held: Any = self.read() if self.level == CELL else self
    stage = modes.stage
    if stage is not None and self.level == CELL and stage.keeps_flag(self, requires_grad):
        return self
    if requires_grad:
        check_differentiable(held)
    if isinstance(held, Tracer):
        return _on_tracer(held, requires_grad)
    node = held._node
    if requires_grad:
        if node is None and stage is not None and type(self) is Tensor:  # known, and made inside
            return _on_tracer(stage.tracer(stage.value_of(self)), True)
        if node is None:
            self._node = woken(self) or Leaf(owner=ref(self))
    elif type(node) is Leaf:
        rest(self, node)
        self._node = None
    elif node is not None:
        raise BackwardError(_NOT_A_LEAF.format(node.name()))
    return self


def _on_tracer(x: Tracer, requires_grad: bool) -> Tensor:
    check_live(x)
    level = x.level
    if requires_grad:
        if level & 1:
            return x
        leaf = Leaf(level | 1)
        tracer = grad_tracer(level | 1, x, leaf)
        leaf.owner = ref(tracer)
        return tracer
    if not _get_requires_grad(x):
        return x
    if type(x._node) is Leaf and level & 1:
        return x.value
    raise BackwardError(_NOT_A_LEAF.format(x.transform))


_NOT_A_LEAF = (
    "requires_grad_(False): only a leaf can stop requiring grad, and this tensor was computed from "
    "others (by {}); write x = x.detach()"
)


def _get_is_leaf(self: Tensor) -> bool:
    """Whether this tensor was not computed from one that requires grad."""
    node = _innermost_node(self)
    if node is None and isinstance(self, Tracer):
        _asked_of_history()
    return node is None or type(node) is Leaf


def _innermost_node(x: Any) -> Node | None:
    """The place of a tensor at the newest level that records it."""
    if x.level == CELL:
        x = x.read()
    while (node := x._node) is None and isinstance(x, Tracer):
        x = x.value
    return node  # type: ignore[no-any-return]


def _get_grad_fn(self: Tensor) -> Node | None:
    """The node that computed this tensor; None for a leaf."""
    node = _innermost_node(self) if isinstance(self, Tracer) else self._node
    if type(node) is Select:
        return node.of
    if node is None and isinstance(self, Tracer):
        _asked_of_history()
    return None if type(node) is Leaf else node


def _get_output_nr(self: Tensor) -> int:
    """Which output of its node this tensor is."""
    node = self._node
    return node.index if type(node) is Select else 0


# grad -------------------------------------------------------------------------------------------


def read_grad(self: Tensor) -> Tensor | None:
    """The gradient that ``.backward()`` accumulated; None before, and for what is not a leaf.

    ``x.grad`` is the same, save that of a Parameter it can be written to.
    """
    node = self._node
    if type(node) is Leaf:
        if live and modes.stage is not None:  # without levels nothing is staged
            modes.stage.read_gradient(node)
        grad = node.grad
        return grad if type(grad) is not Away else gradient_of(node)  # type: ignore[no-any-return]
    if node is None:
        if not live and not leaves:
            return None
        resting = at_rest(self)
        return None if resting is None else resting.grad
    return node.extra.grad if node.extra is not None else None


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    node: Any = self._node or at_rest(self)
    retained = node is not None and node.extra is not None and node.extra.retain
    if type(node) is not Leaf and not retained:
        if value is None:
            return
        raise BackwardError(
            f"grad can be assigned to leaves that require grad, and this {self.spec!r} "
            f"{'does not' if node is None else 'was computed from others'}; "
            f"write {'x.requires_grad_()' if node is None else 'x.retain_grad()'} first"
        )
    if value is not None:
        if self._node is None:
            tell(self)
        if not isinstance(value, Tensor):
            raise TypeError(f"grad must be a tensor or None, got {type(value).__name__}")
        if value.level == CELL:
            value = value.read()
        if value._shape != self._shape:
            raise ShapeError(f"grad has shape {value.shape}, but its tensor has {self.shape}")
        if value._dtype != self._dtype:
            raise DTypeError(
                f"grad has dtype {value.dtype.name}, but its tensor has {self.dtype.name}; "
                f"write g.astype(fx.{self.dtype.name})"
            )
        if value.level > node.level:
            raise BackwardError(
                f"grad: {value.spec!r} is a value inside {value.transform}, and the leaf lives "
                f"longer than it; return it from the transformed function and assign it outside"
            )
    if type(node) is Leaf:
        if modes.stage is not None:
            modes.stage.write_gradient(node)
        node.grad = value
    else:
        node.extra.grad = value


def retain_grad(self: Tensor) -> None:
    """Keep the gradient that reaches this tensor in ``grad``, though it is no leaf.

    Example:
        >>> import fx
        >>> x = fx.tensor(3.0, requires_grad=True)
        >>> y = x * x
        >>> y.retain_grad()
        >>> (2 * y).backward()
        >>> y.grad
        tensor(2.)
    """
    node = _own_node(self, "retain_grad")
    if type(node) is not Leaf:
        extra_of(node).retain = True


def _get_retains_grad(self: Tensor) -> bool:
    """Whether ``retain_grad`` was called on this tensor, which is no leaf."""
    node = self._node
    return node is not None and node.extra is not None and node.extra.retain


def detach(self: Tensor) -> Tensor:
    """The same values, through which nothing is differentiated, neither here nor in a transform.

    Example:
        >>> import fx
        >>> x = fx.tensor(3.0, requires_grad=True)
        >>> (x * x.detach()).backward()
        >>> x.grad
        tensor(3.)
    """
    return new_tensor(self._a) if type(self) is Tensor else stop_gradient(self)


def detach_(self: Tensor) -> Tensor:
    """Refused: tensors do not change."""
    raise InPlaceError("detach_: tensors are immutable; write x = x.detach()")


# hooks ------------------------------------------------------------------------------------------


def register_hook(self: Tensor, hook: Hook) -> RemovableHandle:
    """Call ``hook(gradient)`` when this tensor's gradient is known; what it returns replaces it.

    Args:
        hook: takes the gradient and returns another of its shape and dtype, or None to leave it.

    Returns:
        a handle, whose ``remove()`` takes the hook off.

    Raises:
        BackwardError: if this tensor does not require grad.

    Example:
        >>> import fx
        >>> x = fx.tensor(3.0, requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 10)
        >>> (x * x).backward()
        >>> x.grad
        tensor(60.)
        >>> handle.remove()
    """
    node = _own_node(self, "register_hook")
    if modes.stage is not None:
        modes.stage.hooked(node)
    extra = extra_of(node)

    def checked(ct: Tensor) -> Tensor | None:
        out = hook(ct)
        if out is None:
            return None
        if not isinstance(out, Tensor) or out.shape != ct.shape or out.dtype != ct.dtype:
            got = out.spec if isinstance(out, Tensor) else type(out).__name__
            raise BackwardError(
                f"the hook {getattr(hook, '__name__', hook)!r} returned {got} for a gradient "
                f"{ct.spec!r}; return a tensor of that shape and dtype, or None to leave it"
            )
        return out.read() if out.level == CELL else out

    return RemovableHandle(extra.hooks, checked)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call ``hook(x)`` after a gradient was added to ``x.grad``, for a leaf ``x``.

    Raises:
        BackwardError: if this tensor is not a leaf that requires grad; in the backward pass, if
            the hook returns anything but None.
    """
    node = _own_node(self, "register_post_accumulate_grad_hook")
    if type(node) is not Leaf:
        raise BackwardError(
            f"register_post_accumulate_grad_hook takes leaves, and {self.spec!r} was computed by "
            f"{node.name()}; write x.register_hook(hook)"
        )
    if modes.stage is not None:
        modes.stage.hooked(node)
    extra = extra_of(node)
    owner = ref(self)  # the leaf must not keep its tensor alive

    def call() -> None:
        x = owner()
        if x is not None and (out := hook(x)) is not None:
            raise BackwardError(
                f"the hook {getattr(hook, '__name__', hook)!r} returned {type(out).__name__}; "
                f"Tensor post accumulate grad hooks should return None: write into x.grad, or "
                f"x.grad = g"
            )

    return RemovableHandle(extra.post_hooks, call)


def _own_node(x: Tensor, what: str) -> Node:
    node = x._node
    if node is None:
        raise BackwardError(
            f"{what}: {x.spec!r} does not require grad; write x = x.requires_grad_() first"
        )
    return node


def attach() -> None:
    """Put the methods on Tensor."""
    for name, get, put in (
        ("requires_grad", _get_requires_grad, _set_requires_grad),
        ("grad", read_grad, _set_grad),
        ("is_leaf", _get_is_leaf, None),
        ("grad_fn", _get_grad_fn, None),
        ("output_nr", _get_output_nr, None),
        ("retains_grad", _get_retains_grad, None),
    ):
        setattr(Tensor, name, property(get, put))
    for method in (
        requires_grad_, read_grad, retain_grad, detach, detach_, register_hook,
        register_post_accumulate_grad_hook,
    ):  # fmt: skip
        setattr(Tensor, method.__name__, method)
    Tensor.backward = backward_from
