"""What a Module holds: iteration over submodules, parameters and buffers, look-up by path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fx.nn.base.module import Module
    from fx.nn.parameter import Buffer, Parameter


class Traversal:
    """The part of Module that walks its tree."""

    _modules: dict[str, Any]

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Pairs of a path and a module: this one under ``prefix``, then all below it."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once unless told."""
        return (m for _, m in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Pairs of a name and a direct submodule, each submodule once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Pairs of a path and a parameter; a shared parameter once, under its first path."""
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Buffer]]:
        """Pairs of a path and a buffer."""
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Buffer]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        found = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in found:
            for name, value in module.__dict__[kind].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.0"``.

        Raises:
            AttributeError: naming the step of the path that leads nowhere.
        """
        module: Any = self
        for step in target.split(".") if target else ():
            below = getattr(module, step, None)
            if below is None:
                raise AttributeError(f"{type(module).__name__} has no attribute `{step}`")
            if not isinstance(below, Traversal):
                raise AttributeError(f"`{step}` is not an nn.Module")
            module = below
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a path, in place of what is there.

        Args:
            target: the path; the module that holds its last step must exist.
            module: what goes there.
            strict: whether a module must be there already.

        Raises:
            ValueError: for an empty path, or what is no Module.
            AttributeError: naming the step of the path that leads nowhere.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Traversal):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if hasattr(parent, name):
            if not isinstance(getattr(parent, name), Traversal):
                raise AttributeError(f"`{name}` is not an nn.Module")
        elif strict:
            raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path.

        Raises:
            AttributeError: if there is none.
        """
        return self._get(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Buffer:
        """The buffer at a path.

        Raises:
            AttributeError: if there is none.
        """
        return self._get(target, "_buffers", "a buffer")

    def _get(self, target: str, kind: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if module.__dict__[kind].get(name) is None:
            raise AttributeError(f"`{name}` is not {what}")
        return module.__dict__[kind][name]
