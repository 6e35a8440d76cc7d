"""Module: what every layer and model derives from."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Self

from fx.errors import FxError
from fx.gradients import set_gradients
from fx.holding import register
from fx.nn.base import hooks as _hooks
from fx.nn.base import skeleton as _skeleton
from fx.nn.base.conversions import Conversions
from fx.nn.base.holding import Layers
from fx.nn.base.hooks import (  # noqa: F401 - where PyTorch has them
    Hooking,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from fx.nn.base.locating import locate
from fx.nn.base.state_dict import Saving
from fx.nn.base.traversal import Traversal
from fx.nn.parameter import Buffer, Parameter
from fx.state import Cell
from fx.tensor import Tensor
from fx.tree import register_node
from fx.versions import Watched, changes, note_change

_HELD = ("_parameters", "_buffers", "_modules")


class Module(Traversal, Conversions, Hooking, Saving):
    """A function with parameters, buffers and submodules, as ``torch.nn.Module``.

    A Module is also a pytree whose leaves are its parameters: ``fx.grad(lambda m: loss(m(x)))``
    of a Module is a Module-shaped gradient, and ``fx.tree.map`` over Modules gives one back.

    Example:
        >>> import fx
        >>> from fx import nn
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.fc = nn.Linear(3, 2)
        ...
        ...     def forward(self, x):
        ...         return self.fc(x).relu()
        >>> model = Net()
        >>> model
        Net(
          (fc): Linear(in_features=3, out_features=2, bias=True)
        )
        >>> gradient = fx.grad(lambda m: m(fx.ones((4, 3))).sum())(model)
        >>> gradient.fc.weight.shape
        (2, 3)
    """

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]
    call_super_init: bool = False  # whether __init__ goes on to the next class, with its arguments

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            got = (
                f"got an unexpected keyword argument '{next(iter(kwargs))}'"
                if kwargs
                else f"takes 1 positional argument but {len(args) + 1} were given"
            )
            raise TypeError(f"{type(self).__name__}.__init__() {got}")
        own = {
            **self.__dict__, "training": True, "_parameters": Watched(), "_buffers": Watched(),
            "_non_persistent_buffers_set": set(), "_modules": Watched(),
        }  # fmt: skip
        object.__setattr__(self, "__dict__", Watched(own))
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register_node(cls, _skeleton.flatten, _skeleton.unflatten)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass gives its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function; '
            f"write def forward(self, x): ... in the class"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if self._hooked:
                return _hooks.call(self, args, kwargs)
            return self.forward(*args, **kwargs)
        except FxError as error:
            locate(error, self)
            raise

    def compile(self, **options: Any) -> None:
        """Let calls of this module run compiled: ``forward`` is jitted, with ``options`` of it.

        Example:
            >>> import fx
            >>> model = fx.nn.Sequential(fx.nn.Linear(3, 2), fx.nn.ReLU())
            >>> model.compile()
            >>> model(fx.ones((4, 3))).shape
            (4, 2)
        """
        from fx.transforms.jitting import jit

        self.__dict__["forward"] = jit(type(self).forward, **options).__get__(self)

    def __jit_object__(self) -> bool:
        """Whether a jitted function takes this module as the object that it is.

        Because it holds cells; or because it holds no tensors that another module of the same shape
        would have, while attributes may be set.
        """
        held = [
            x
            for module in self.modules()
            for x in (*module._parameters.values(), *module._buffers.values())
            if x is not None
        ]
        return not held or any(isinstance(x, Cell) for x in held)

    # attributes ---------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if "_modules" in own:  # written out, as every layer asks for its weights
            if name in (held := own["_parameters"]):
                return held[name]
            if name in (held := own["_modules"]):
                return held[name]
            if name in (held := own["_buffers"]):
                return held[name]
            if name in _hooks.KINDS:
                return self._hooks(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        modules = own.get("_modules")
        if modules is None:
            if isinstance(value, Parameter | Buffer | Module):
                kind = _kind(value)
                raise AttributeError(
                    f"cannot assign {kind}s before Module.__init__() call; write "
                    f"super().__init__() as the first line of {type(self).__name__}.__init__"
                )
        elif isinstance(value, Parameter):
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
            return
        elif isinstance(value, Module):
            self._forget(name, but="_modules")
            value = registered("module", self, name, value)
            note_change(modules.get(name), value)
            modules[name] = value
            return
        elif isinstance(value, Buffer):
            self._forget(name, but="_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        elif name in own["_parameters"]:
            self._assign_parameter(name, value)
            return
        elif name in own["_buffers"]:
            self._assign_buffer(name, value)
            return
        elif name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{_typename(value)}' as child module '{name}' "
                    f"(fx.nn.Module or None expected)"
                )
            note_change(modules[name], None)
            modules[name] = None
            return
        note_change(own.get(name, changes), value)
        object.__setattr__(self, name, value)

    def _assign_parameter(self, name: str, value: Any) -> None:
        held = self._parameters[name]
        if value is not None and (held is None or isinstance(held, Cell)):
            raise TypeError(
                f"cannot assign '{_typename(value)}' as parameter '{name}' (fx.nn.Parameter or "
                f"None expected); to give it a new value write self.{name}.data = value"
            )
        _skeleton.untie(self, name)
        note_change(held, value)
        self._parameters[name] = value

    def _assign_buffer(self, name: str, value: Any) -> None:
        """Rebind the buffer of that name, so that whoever holds the cell sees the new value."""
        held = self._buffers[name]
        if isinstance(held, Cell) and isinstance(value, Tensor):
            held._forgets(value)
            held._leave()  # what was cut of it is of another tensor now
            held.rebind(value)
        else:
            persistent = name not in self._non_persistent_buffers_set
            self.register_buffer(name, value, persistent)

    def _forget(self, name: str, but: str) -> None:
        own = self.__dict__
        if name in own:
            changes.count += 1
            del own[name]
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != but:
                own[kind].pop(name, None)
        if but != "_buffers":
            own["_non_persistent_buffers_set"].discard(name)
        _skeleton.untie(self, name)

    def __delattr__(self, name: str) -> None:
        own = self.__dict__
        changes.count += 1
        for held in (own["_parameters"], own["_buffers"], own["_modules"]):
            if name in held:
                self._forget(name, but="")
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        own = self.__dict__
        held = (*own["_parameters"], *own["_buffers"], *own["_modules"])
        return sorted({*dir(type(self)), *own, *held})

    # registration -------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for one that may come later.

        Raises:
            TypeError, KeyError, AttributeError: as in PyTorch, for a wrong value, a bad or taken
                name, and a call before ``Module.__init__``.
        """
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_typename(param)}' object to parameter '{name}' "
                f"(fx.nn.Parameter or None required); write fx.nn.Parameter(x)"
            )
        if param is not None and not param.name:
            param.name = f"{type(self).__name__}.{name}"
        if param is not None:
            param = registered("parameter", self, name, param)
        note_change(self._parameters.get(name, changes), param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the state and is not learned.

        Args:
            name: its attribute.
            tensor: its first value; it becomes a ``Buffer``. None for one that may come later.
            persistent: whether ``state_dict`` holds it.

        Raises:
            TypeError, KeyError, AttributeError: as in PyTorch.
        """
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"cannot assign '{_typename(tensor)}' object to buffer '{name}' "
                    f"(fx.Tensor or None required); write fx.tensor(x)"
                )
            if not isinstance(tensor, Buffer):
                tensor = Buffer(tensor, persistent=persistent)
            tensor.name = tensor.name or f"{type(self).__name__}.{name}"
            tensor = registered("buffer", self, name, tensor)
        note_change(self._buffers.get(name, changes), tensor)
        self._buffers[name] = tensor
        unsaved = self.__dict__["_non_persistent_buffers_set"]
        (unsaved.discard if persistent else unsaved.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name.

        Raises:
            TypeError, KeyError, AttributeError: as in PyTorch.
        """
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_typename(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        module = registered("module", self, name, module)
        note_change(self._modules.get(name, changes), module)
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name: Any, kind: str, where: str) -> None:
        if where not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[where] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # modes and changes --------------------------------------------------------------------------

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call ``fn`` on every submodule and then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it in training mode (dropout on, batch statistics).

        Raises:
            ValueError: if ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Put this module and all below it in evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Let gradients accumulate in every parameter, or in none."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or make it zero."""
        if set_to_none:  # whether there was one is not asked: jit would guard on it
            set_gradients([(p, None) for p in self.parameters()])
            return
        found = [(p, p.read_grad()) for p in self.parameters()]
        set_gradients([(p, grad * 0) for p, grad in found if grad is not None])

    # copies ---------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.update((kind, dict(state[kind])) for kind in _HELD if kind in state)
        forward = state.get("forward")
        if isinstance(forward, MethodType) and not isinstance(forward.__func__, FunctionType):
            del state["forward"]  # compiled code stays behind
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {**self.__dict__, **state}
        own.setdefault("_non_persistent_buffers_set", set())
        own.update((kind, Watched(own[kind])) for kind in _HELD if kind in own)
        object.__setattr__(self, "__dict__", Watched(own))

    # printing -----------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The settings that ``repr`` shows between the parentheses."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): " + repr(module).replace("\n", "\n  ")
            for name, module in self._modules.items()
        ]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        body = "".join(f"\n  {line}" for line in lines + children)
        return f"{self._get_name()}({body}\n)" if body else f"{self._get_name()}()"


register_node(Module, _skeleton.flatten, _skeleton.unflatten)
register(Module, Layers())


def _kind(value: Any) -> str:
    return "parameter" if isinstance(value, Parameter) else type(value).__name__.lower()


def _typename(value: Any) -> str:
    cls = type(value)
    return cls.__name__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__name__}"
