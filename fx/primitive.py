"""Primitive and bind: the one door that every operation passes.

Calling a primitive binds it. With plain tensors on the CPU that is: look at the arguments, run the
kernel, wrap the result. A tracer among them hands the call to the transform with the highest level;
a tensor with a node has the call recorded on the level-0 tape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar

from numpy import asarray, ndarray

from fx import tape
from fx.config import modes
from fx.devices import backend, device_of_array, kernel_of, name_of
from fx.errors import DeviceError, DTypeError, FxError, RegistrationError, ShapeError
from fx.levels import check_live
from fx.slotted import slotted
from fx.spec import TensorSpec
from fx.tape import record
from fx.tensor import Tensor, _blank, new_tensor

registry: dict[str, Primitive] = {}

Rule = Callable[..., Any]
MANY = 64  # elements
# how NumPy says that no address reaches so far
_TOO_LARGE = (
    "array is too big",
    "Maximum allowed dimension",
    "maximum supported dimension",
    "cannot reshape array",
)


class _NotDifferentiable:
    """The explicit word, in place of a rule, that a primitive has no derivative."""

    def __repr__(self) -> str:
        return "NOT_DIFFERENTIABLE"


NOT_DIFFERENTIABLE: Any = _NotDifferentiable()
# what passes and schedulers know of a primitive beyond its rules
KINDS = {
    "elementwise": "of the elements in the same place of all arguments, which broadcast",
    "view": "the bytes of its argument, in another shape",
    "strided": "an element of its argument, at a place that strides give",
    "move": "an element of an argument, at another place",
    "creation": "of the parameters alone",
    "reduction": "of all elements along axes",
    "product": "a sum of products",
    "": "anything else",
}


@slotted(eq=False, repr=False)
class Primitive:
    """A pure operation and all its rules. ``fx/prims/README.md`` walks through one.

    Args:
        name: unique, the field's term.
        spec: ``(*specs, **params) -> spec`` or a tuple of specs; refuses what does not fit.
        cpu: ``(*arrays, **params) -> array`` or a tuple of arrays; None for the kernel that the
            CPU's backend has under that name.
        jvp: ``(primals, tangents, **params) -> (out, tangent)``; a tangent None is zero.
        vjp: ``(needs, *primals, **params) -> pullback``, run when the operation is recorded;
            ``needs[i]`` is None where no cotangent is wanted; ``pullback(ct, *saved)`` gives one
            cotangent an argument, or None.
        batch: ``(level, args, dims, **params) -> (out, dim)``; ``dims[i]`` is the mapped axis of
            ``args[i]`` or None; ``level`` has ``.size``, ``.axis_name``, ``.number``.
        sample: ``(draw) -> Sample``; draws valid arguments for the laws.
        saves: the indices of the outputs that the pullback wants, ``(0,)`` for the output.
        multiple: whether it returns a tuple.
        sparing: whether its pullback takes None for results without a cotangent, and not zeros.
        effectful: what it does besides computing results, so that it is never dropped, merged or
            moved: the name of the order that those of its kind keep (``graph/passes/ordering.py``),
            "" for nothing; or ``(**params) -> name``.
        torch_name: PyTorch's name of its backward node, without ``Backward0``.
        forward: ``(needs, *primals, **params) -> (outs, pullback)``: results and pullback together,
            for a primitive of one or two arguments and several results whose ``vjp`` would compute
            them once more; it is used in place of ``vjp`` where nobody will differentiate the
            pullback.
        kind: what an element of the result is made of, one of ``KINDS``.
        weight: operations an element: about how many instructions a vector of results takes.
        commutative: whether f(x, y) has the bits of f(y, x).
        no_minus_zero: whether no real result is -0.0.
        partial: whether some integers are refused: indices out of range, divisors that are 0.
        literals: the indices of arguments for which a known number may mean other code, as
            exponents do: code that serves several graphs has each such number in it.
        anywhere: whether its kernel takes arrays of every device.
        sharding: ``(*specs, **params) -> Factors``: which axes may be cut together
            (``prims/factors.py``); None: that of its kind, or that all are whole.
        formula: ``(*tensors, **params) -> tensor``, the same numbers by other primitives; it
            returns None where it has none for such arguments. Compilers take it for a primitive
            for which they have no code.
        dissolves: whether compilers always take the formula, since nothing is lost by it.
        cpu_of_many: what takes the place of ``cpu`` from ``MANY`` elements of the first argument
            on, where that of the backend does; so small tensors go straight to the kernel.
    """

    name: str
    spec: Rule
    cpu: Rule
    jvp: Rule
    vjp: Rule
    batch: Rule
    sample: Rule
    saves: tuple[int, ...] = ()
    multiple: bool = False
    sparing: bool = False
    torch_name: str = ""
    forward: Rule | None = None
    kernels: dict[str, Rule] = field(default_factory=dict)
    differentiable: bool = True
    effectful: Any = ""
    kind: str = ""
    weight: int = 1
    commutative: bool = False
    no_minus_zero: bool = False
    partial: bool = False
    literals: tuple[int, ...] = ()
    anywhere: bool = False
    sharding: Rule | None = None
    formula: Rule | None = None
    dissolves: bool = False
    cpu_of_many: Rule | None = None
    is_applied: ClassVar[bool] = False  # whether it is a function with rules of its own
    is_view: ClassVar[bool] = False  # whether what it gives is noted as a view (fx.writing)

    def __post_init__(self) -> None:
        if self.cpu is None:  # looked up here, once: a call finds it in its place
            cpu = backend("cpu")
            self.cpu, self.cpu_of_many = cpu.kernel_for(self), cpu.kernel_of_many(self)
        if not callable(self.cpu):
            raise _lacks(self.name, "cpu")
        self.kernels["cpu"] = self.cpu
        self.torch_name = self.torch_name or "".join(map(str.capitalize, self.name.split("_")))

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Bind: run on ``args`` (tensors of any level) with static ``params``."""
        count = len(args)
        if count == 1:
            x = args[0]
            if type(x) is not Tensor or type(x._a) is not ndarray:
                return self._dispatch(args, params)
            recorded = x._node is not None
            if recorded and self.forward is not None and modes.record0:
                return tape.record_forward(self, args, params)
            try:
                if self.cpu_of_many is None or x._a.size < MANY:
                    array = self.cpu(x._a, **params)
                else:
                    array = self.cpu_of_many(x._a, **params)
            except Exception as error:
                raise self._explain(error, args, params) from None
        elif count == 2:
            x, y = args
            if type(x) is not Tensor or type(y) is not Tensor:
                return self._dispatch(args, params)
            a, b = x._a, y._a
            if type(a) is not ndarray or type(b) is not ndarray:
                return self._dispatch(args, params)
            recorded = x._node is not None or y._node is not None
            if recorded and self.forward is not None and modes.record0:
                return tape.record_forward(self, args, params)
            try:
                if self.cpu_of_many is None or a.size < MANY:
                    array = self.cpu(a, b, **params)
                else:
                    array = self.cpu_of_many(a, b, **params)
            except Exception as error:
                raise self._explain(error, args, params) from None
        else:
            recorded = False
            for x in args:
                if type(x) is not Tensor or type(x._a) is not ndarray:
                    return self._dispatch(args, params)
                if x._node is not None:
                    recorded = True
            if not args and (modes.stage is not None or params["device"] != "cpu"):
                return self._on_device(args, params)
            try:
                array = self.cpu(*[x._a for x in args], **params)
            except Exception as error:
                raise self._explain(error, args, params) from None
        if self.multiple:
            out: Any = tuple([new_tensor(a if type(a) is ndarray else asarray(a)) for a in array])
            if recorded and modes.record0 and self.differentiable:
                return tape.record_multiple(self, args, params, out)
            return out
        out = _blank()
        out._a = array if type(array) is ndarray else _array(array)
        out._node = out._noted = None
        if recorded and modes.record0 and self.differentiable:
            record(self, args, params, out)
        return out

    def _dispatch(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The way of calls with a tracer, a cell, another device, or no tensor at all."""
        level = 0
        top: Any = None
        if len(args) == 1 and isinstance(args[0], Tensor) and args[0].level == tape.CELL:
            return self(args[0].read(), **params)
        for i, x in enumerate(args):
            if not isinstance(x, Tensor):
                raise DTypeError(
                    f"{self.name} takes tensors, got {type(x).__name__} as argument {i}; "
                    f"write fx.asarray(x)"
                )
            if x.level > level:
                level, top = x.level, x
        if level == tape.CELL:
            return self(*[x.read() if x.level == tape.CELL else x for x in args], **params)
        if top is not None:
            check_live(top)
            stage = modes.stage
            if stage is not None and stage.number > level:
                stage = stage.enclosing(level)
                if stage is not None:
                    return stage.emit(self, args, params)
            return top.process(self, args, params)
        return self._on_device(args, params)

    def _on_device(self, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        names = {name_of(x._a) for x in args}
        if len(names) > 1:
            return self._brought_together(args, params, names)
        if not names and modes.stage is not None and params["device"] != "meta":
            return modes.stage.emit(self, args, params)
        name = names.pop() if names else params["device"]
        kernel = self.kernels.get(name) or kernel_of(self, name)
        try:
            out = kernel(*[x._a for x in args], **params)
        except Exception as error:
            raise self._explain(error, args, params) from None
        arrays = out if self.multiple else (out,)
        outs = [new_tensor(_array(a)) for a in arrays]
        recorded = any(x._node is not None for x in args)
        if recorded and modes.record0 and self.differentiable:
            if self.multiple:
                return tape.record_multiple(self, args, params, tuple(outs))
            tape.record(self, args, params, outs[0])
        return tuple(outs) if self.multiple else outs[0]

    def _brought_together(
        self, args: tuple[Any, ...], params: dict[str, Any], names: set[str]
    ) -> Any:
        """The call with numbers of the CPU on the only other device that there is.

        Whole tensors follow too where it is the thread's ``modes.joined``.

        Raises:
            DeviceError: if they lie on several, or what lies on the CPU is more than a number.
        """
        there = self.together([TensorSpec(x.shape, x.dtype, name_of(x._a)) for x in args])
        put = registry["device_put"]
        return self(*[put(x, device=there) for x in args], **params)

    def together(self, specs: Sequence[TensorSpec]) -> str:
        """The device on which operands of several devices meet.

        Raises:
            DeviceError: as ``_brought_together``.
        """
        others = {s.device for s in specs} - {"cpu"}
        numbers = all(not s.shape for s in specs if s.device == "cpu")
        if len(others) == 1 and (numbers or modes.joined in others):
            return others.pop()
        listed = ", ".join([f"{TensorSpec(s.shape, s.dtype)!r} on {s.device}" for s in specs])
        raise DeviceError(
            f"{self.name} got tensors on different devices: {listed}; "
            f"move them together, for example x.to({min(others)!r})"
        )

    def _explain(self, error: Exception, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """The spec rule's words for what a kernel choked on; the kernel's own where it has none."""
        if isinstance(error, FxError):
            return error
        try:
            wanted = self.spec(*[x.spec for x in args], **params)
        except FxError as better:
            return better
        text = str(error)
        no_memory = isinstance(error, MemoryError)
        if no_memory or isinstance(error, OverflowError) or text.startswith(_TOO_LARGE):
            outs = ", ".join(map(repr, wanted if self.multiple else (wanted,)))
            if no_memory:
                return MemoryError(
                    f"{self.name}: no memory for a result {outs} and what it takes to compute it; "
                    f"compute it in pieces, or learn its shape with fx.eval_shape"
                )
            return ShapeError(
                f"{self.name}: a result {outs} asks for a size, a step or a number of axes that "
                f"memory cannot have; write smaller ones"
            )
        return error


def _array(found: Any) -> Any:
    """What a kernel gave, as an array: of NumPy's scalars one without axes."""
    return found if type(found) in device_of_array else asarray(found)


def bind_two(primitive: Primitive, otherwise: Rule) -> Rule:
    """Bind for a binary operator: two plain CPU tensors of one dtype go straight to the kernel.

    Everything else (scalars, tracers, other dtypes and devices) is ``otherwise``'s.
    """
    static: dict[str, Any] = {}
    many = primitive.cpu_of_many

    def bind(x: Tensor, other: Any) -> Any:
        if type(other) is Tensor and type(x) is Tensor:
            a, b = x._a, other._a
            if type(a) is ndarray and type(b) is ndarray and a.dtype is b.dtype:
                try:
                    if many is None or a.size < MANY:
                        array = primitive.cpu(a, b)
                    else:
                        array = many(a, b)
                except Exception as error:
                    raise primitive._explain(error, (x, other), static) from None
                out = _blank()
                out._a = array if type(array) is ndarray else asarray(array)
                out._node = out._noted = None
                recorded = x._node is not None or other._node is not None
                if recorded and modes.record0 and primitive.differentiable:
                    record(primitive, (x, other), static, out)
                return out
        return otherwise(x, other)

    return bind


def define(name: str, *, cpu: Rule | None = None, **rules: Any) -> Primitive:
    """Register a primitive; refuse one that lacks a rule.

    Args:
        name: unique, the field's term.
        cpu: its kernel on NumPy arrays; the CPU's own of that name unless given.
        rules: what else ``Primitive`` lists.

    Raises:
        RegistrationError: if the name is taken, or a rule is neither given nor declared
            ``NOT_DIFFERENTIABLE``, or nobody has a kernel.
    """
    for rule in ("spec", "jvp", "vjp", "batch", "sample"):
        value = rules.get(rule)
        may_lack = rule in ("jvp", "vjp")
        if not callable(value) and not (may_lack and value is NOT_DIFFERENTIABLE):
            raise _lacks(name, rule, " (or the word NOT_DIFFERENTIABLE)" if may_lack else "")
    if (rules["jvp"] is NOT_DIFFERENTIABLE) != (rules["vjp"] is NOT_DIFFERENTIABLE):
        raise RegistrationError(f"primitive {name!r} must give both jvp and vjp, or neither")
    if rules.get("kind", "") not in KINDS:
        raise RegistrationError(
            f"primitive {name!r} has kind {rules['kind']!r}; the kinds are {[*KINDS]}"
        )
    if name in registry:
        raise RegistrationError(f"a primitive named {name!r} exists already")
    primitive = registry[name] = Primitive(name, cpu=cpu, **rules)  # type: ignore[arg-type]
    primitive.differentiable = primitive.vjp is not NOT_DIFFERENTIABLE
    return primitive


def _lacks(name: str, rule: str, word: str = "") -> RegistrationError:
    return RegistrationError(
        f"primitive {name!r} lacks its {rule} rule{word}; see fx/prims/README.md"
    )
