"""L-BFGS: steps along a curvature that the last gradients tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fx import tree
from fx.commit import Stores
from fx.config import enable_grad, modes, no_grad
from fx.dtypes import int64
from fx.gradients import plan_gradients
from fx.ops.shapes.joining import concat
from fx.optim._flat import dot, flat, largest, length_one, parts
from fx.optim._line_search import Point, strong_wolfe
from fx.optim._pure import Pure, value_of
from fx.optim._rule import check_positive, check_single, zeros
from fx.optim.optimizer import Optimizer
from fx.prims.compare import where
from fx.prims.creation import constant
from fx.prims.elementwise import maximum
from fx.prims.shape import broadcast_to, reshape
from fx.state import plan_rebinds
from fx.tensor import Tensor
from fx.transforms import scan

_CURVED = 1e-10  # the least curvature along a step that is taken into the history


class LBFGS(Optimizer):
    """L-BFGS: a quasi-Newton method for losses without noise.

    A step evaluates the loss several times, so that it needs a closure. It decides by values:
    inside a jitted function it makes that function run uncompiled, while a closure that calls a
    jitted function is compiled as always.

    Args:
        params: parameters; one group alone.
        lr: the length of a step in units of the one that the curvature suggests.
        max_iter: iterations in one step.
        max_eval: evaluations in one step; ``max_iter * 5 / 4`` unless told.
        tolerance_grad: the greatest element of a gradient that counts as zero.
        tolerance_change: the least change of loss or parameters that is worth going on.
        history_size: how many gradients are remembered.
        line_search_fn: ``"strong_wolfe"``, or None for steps of fixed length.

    Raises:
        ValueError: for a negative learning rate, or several groups.
        RuntimeError: in ``step``, for an unknown line search.

    Source: Nocedal and Wright, "Numerical optimization", chapter 7.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([3.0, -2.0]))
        >>> optimizer = fx.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = ((w - 1) ** 2).sum()
        ...     loss.backward()
        ...     return loss
        >>> loss = optimizer.step(closure)
        >>> (w - 1).abs().max() < 1e-4
        tensor(True)
    """

    _slots = dict  # no step of it is compiled

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_positive("LBFGS", {"lr": lr}, "lr")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make up to ``max_iter`` iterations.

        Args:
            closure: drops the gradients, computes the loss and new gradients, returns the loss.

        Returns:
            The loss at the beginning.
        """
        if modes.stage is not None:
            modes.stage.give_up(
                "LBFGS decides by values; call its step outside and jit what the closure calls"
            )
        (group,) = self.param_groups
        params = group["params"]
        held = self.state.get(params[0], {})
        state = {k: list(v) if isinstance(v, list) else v for k, v in held.items()}
        values = [(p, p.read()) for p in params]
        grads = [(p, p.read_grad()) for p in params]
        done = Stores()
        done.put(self.state, params[0], state)
        with no_grad():
            try:
                loss = self._step(closure, state)
                done.commit()
            except BaseException:  # it has moved the parameters about
                if not done.done:
                    back = Stores()
                    if plan_rebinds(back, values) and plan_gradients(back, grads):
                        back.commit()
                raise
        return loss

    def _step(self, closure: Callable[[], Any], state: dict[str, Any]) -> Any:
        (group,) = self.param_groups
        params = group["params"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        lr, change = float(group["lr"]), group["tolerance_change"]
        most = group["max_eval"]

        def evaluate() -> tuple[Any, float, Tensor]:
            with enable_grad():
                loss = closure()
            slopes = [zeros(p) if p.grad is None else p.grad for p in params]
            return loss, float(loss), flat(slopes)

        def move_to(values: list[Tensor]) -> None:
            for p, value in zip(params, values, strict=True):
                p.rebind(value)

        first, loss, gradient = evaluate()
        evals = 1
        state["func_evals"] += 1
        if largest(gradient) <= group["tolerance_grad"]:
            return first
        for i in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = _direction(state, gradient, group["history_size"])
            state["d"], state["prev_flat_grad"], before = direction, gradient, loss
            t = lr
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / float(length_one(gradient)))
            state["t"], state["prev_loss"] = t, loss
            slope = float(dot(gradient, direction))
            if slope > -change:
                break
            calls = 0
            if group["line_search_fn"] is None:
                move_to(_moved(params, direction, t))
                if i != group["max_iter"]:
                    _, loss, gradient = evaluate()
                    calls = 1
            elif group["line_search_fn"] == "strong_wolfe":
                start = [p.detach() for p in params]

                def along(t: float) -> tuple[float, Tensor]:
                    move_to(_moved(start, direction, t))  # noqa: B023 - called at once
                    return evaluate()[1:]

                point, calls = strong_wolfe(
                    along, t, direction, Point(0.0, loss, gradient, slope), most=most - evals
                )
                move_to(_moved(start, direction, point.t))
                loss, gradient, t = point.loss, point.gradient, point.t
                state["t"] = t
            else:
                raise RuntimeError(
                    f"only 'strong_wolfe' is supported as line_search_fn of LBFGS, "
                    f"got {group['line_search_fn']!r}"
                )
            evals += calls
            state["func_evals"] += calls
            if (
                evals >= most
                or largest(gradient) <= group["tolerance_grad"]
                or float(largest(direction)) * t <= change
                or abs(loss - before) < change
            ):
                break
        return first


def _moved(values: Any, direction: Tensor, t: float) -> list[Tensor]:
    """Parameters after a step along a direction."""
    return [x + d * t for x, d in zip(values, parts(direction, values), strict=True)]


def _direction(state: dict[str, Any], gradient: Tensor, most: int) -> Tensor:
    """The next direction; the last step goes into the history."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -gradient
    y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
    ys = dot(y, s)
    dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
    if ys > _CURVED:
        if len(dirs) == most:
            for kept in (dirs, steps, ro):
                kept.pop(0)
        dirs.append(y)
        steps.append(s)
        ro.append(1.0 / ys)
        state["H_diag"] = ys / dot(y, y)
    al = state["al"] = [None] * most
    q = -gradient
    for i in reversed(range(len(dirs))):
        al[i] = dot(steps[i], q) * ro[i]
        q = q - dirs[i] * al[i]
    q = q * state["H_diag"]
    for i in range(len(dirs)):
        q = q + steps[i] * (al[i] - dot(dirs[i], q) * ro[i])
    return q


class LBFGSState(NamedTuple):
    """The state of the pure form: vectors of all n parameters, histories the oldest first."""

    count: Tensor  # ()
    gradient: Tensor  # (n,)
    step: Tensor  # (n,), the last one
    dirs: Tensor  # (history, n), differences of gradients
    steps: Tensor  # (history, n)
    ro: Tensor  # (history,), 0 where nothing is remembered yet
    scale: Tensor  # ()


def lbfgs(lr: Any = 1.0, history_size: int = 10) -> Pure:
    """The pure form of ``LBFGS`` without a line search: each update is one iteration.

    Args:
        lr: the length of a step in units of the one that the curvature suggests.
        history_size: how many gradients are remembered; the state has two vectors for each.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.lbfgs()
        >>> w = fx.tensor([3.0, -2.0])
        >>> state = init(w)
        >>> for _ in range(5):
        ...     w, state = update(2 * w, state, w)
        >>> w.abs().max() < 1e-4
        tensor(True)
    """
    if isinstance(lr, Tensor):
        check_single("lbfgs", "lr", lr)
    check_positive("lbfgs", {"lr": lr}, "lr")

    def init(params: Any) -> LBFGSState:
        x = zeros(flat([value_of("lbfgs", leaf) for leaf in tree.leaves(params)]))
        rows = broadcast_to(x, shape=(history_size, *x.shape))
        one = constant(1.0, x.dtype, str(x.device))
        return LBFGSState(constant(0, int64), x, x, rows, rows, rows[:, 0], one)

    def update(grads: Any, state: LBFGSState, params: Any) -> tuple[Any, LBFGSState]:
        leaves, treedef = tree.flatten(params)
        values = [value_of("lbfgs", leaf) for leaf in leaves]
        g = flat([value_of("lbfgs", leaf) for leaf in tree.flatten_up_to(treedef, grads)])
        y, s = g - state.gradient, state.step
        ys = dot(y, s)
        one = zeros(ys) + 1
        fresh = (ys > _CURVED) & (state.count > 0)
        dirs, steps = _pushed(fresh, state.dirs, y), _pushed(fresh, state.steps, s)
        ro = _pushed(fresh, state.ro, 1.0 / where(fresh, ys, one))
        scale = where(fresh, ys / where(fresh, dot(y, y), one), state.scale)

        def back(q: Tensor, x: Any) -> tuple[Tensor, Tensor]:
            al = dot(x[1], q) * x[2]
            return q - x[0] * al, al

        def forth(q: Tensor, x: Any) -> tuple[Tensor, None]:
            return q + x[1] * (x[3] - dot(x[0], q) * x[2]), None

        q, al = scan(back, -g, (dirs, steps, ro), reverse=True)
        q, _ = scan(forth, q * scale, (dirs, steps, ro, al))
        norm = length_one(g)
        first = where(state.count == 0, 1.0 / maximum(norm, one), one)
        step = q * (first * lr)
        new = [x + d for x, d in zip(values, parts(step, values), strict=True)]
        state = LBFGSState(state.count + 1, g, step, dirs, steps, ro, scale)
        return tree.unflatten(treedef, new), state

    return Pure(init, update)


def _pushed(fresh: Tensor, history: Tensor, newest: Tensor) -> Tensor:
    """A history that has lost its oldest entry to the newest one, if that counts."""
    longer = concat([history[1:], reshape(newest, shape=(1, *newest.shape))], axis=0)
    return where(broadcast_to(fresh, shape=history.shape), longer, history)
