"""Activation functions that write: ``relu_(p)`` rebinds a Parameter or Buffer, and where the user
writes (``fx.writing``) any tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.errors import InPlaceError
from fx.nn.functional import activation, rectifiers
from fx.ops.operands import argument
from fx.state import Cell
from fx.tensor import Tensor
from fx.writing.inplace import user_writes, written


def written_form(function: Callable[..., Any]) -> Callable[..., Any]:
    name = f"{function.__name__}_"

    def write(input: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(input, Cell):
            if isinstance(input, Tensor) and user_writes():
                return written(input, name, function(input, *args, **kwargs))
            x = argument(name, input)
            raise InPlaceError(
                f"F.{name}(x) would change x, {x.spec!r}, and tensors never change; write "
                f"x = F.{function.__name__}(x)"
            )
        return input._renew(name, function(input.read(), *args, **kwargs))

    write.__name__ = write.__qualname__ = name
    write.__doc__ = (
        f"``{function.__name__}`` of a Parameter or Buffer, which is rebound to the result.\n\n"
        f"    Raises:\n"
        f"        InPlaceError: for a tensor, which never changes, and for a Parameter that\n"
        f"            requires grad, outside of ``fx.no_grad()``.\n"
    )
    return write


relu_ = written_form(activation.relu)
leaky_relu_ = written_form(activation.leaky_relu)
elu_ = written_form(activation.elu)
hardtanh_ = written_form(activation.hardtanh)
celu_ = written_form(rectifiers.celu)
selu_ = written_form(rectifiers.selu)
rrelu_ = written_form(rectifiers.rrelu)
threshold_ = written_form(rectifiers.threshold)
