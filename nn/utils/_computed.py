"""Computed attributes of one module: a weight that is a function of what the module holds.

A module with such an attribute gets a class of its own, its class with a property of that name, so
that whoever reads the attribute gets its value of this moment, under every transform.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fx.nn.base.module import Module
from fx.versions import touch


def compute(module: Module, name: str, function: Any, prefix: str = "") -> None:
    """Let ``module.name`` be ``function(module)`` from now on.

    Args:
        module: gets the attribute; it must not hold one of that name.
        name: the attribute.
        function: computes it; where it has ``assign(module, value)``, that is what
            ``module.name = value`` does.
        prefix: put before the name of the class.
    """
    base, names = _origin(module)
    module.__dict__.setdefault("_computed", {})
    module.__dict__["_computed"] = {**module.__dict__["_computed"], name: function}
    module.__class__ = _class_of(base, (*names, name), prefix + base.__name__)
    touch()


def forget(module: Module, name: str) -> None:
    """Let ``module.name`` be an ordinary attribute again."""
    base, names = _origin(module)
    rest = tuple([n for n in names if n != name])
    kept = {k: f for k, f in module.__dict__["_computed"].items() if k != name}
    module.__dict__["_computed"] = kept
    if rest:
        module.__class__ = _class_of(base, rest, type(module).__name__)
    else:
        del module.__dict__["_computed"]
        module.__class__ = base
    touch()


def function_of(module: Module, name: str) -> Any:
    """What computes an attribute; None for one that is not computed."""
    return module.__dict__.get("_computed", {}).get(name)


def base_of(module: Module) -> type:
    """The class that a module had before attributes of it were computed."""
    return _origin(module)[0]


def _origin(module: Module) -> tuple[type, tuple[str, ...]]:
    cls = type(module)
    return cls.__dict__.get("_fx_origin", (cls, ()))


@cache
def _class_of(base: type, names: tuple[str, ...], title: str) -> type:
    def reduce(self: Any, protocol: Any) -> Any:
        _, _, *rest = base.__reduce_ex__(self, protocol)
        return _blank, (base, names, title), *rest

    inside = {
        "__module__": base.__module__,
        "__doc__": base.__doc__,
        "__reduce_ex__": reduce,
        "_fx_origin": (base, names),
    }
    return type(title, (base,), {**inside, **{name: _property(name) for name in names}})


def _blank(base: type, names: tuple[str, ...], title: str) -> Any:
    return object.__new__(_class_of(base, names, title))


def _property(name: str) -> property:
    def read(self: Any) -> Any:
        return self.__dict__["_computed"][name](self)

    def assign(self: Any, value: Any) -> None:
        function = self.__dict__["_computed"][name]
        if not hasattr(function, "assign"):
            raise AttributeError(
                f"{type(self).__name__}.{name} is computed by {type(function).__name__} from other "
                f"parameters; assign to those"
            )
        function.assign(self, value)

    return property(read, assign)
