"""Initialisers: each gives a Parameter or Buffer new values and returns it.

A tensor never changes, so what is initialised is a cell; it is rebound. Random numbers come from
``generator``, or from the current generator.
"""

from fx.nn.init.distributions import (
    constant_,
    normal_,
    ones_,
    trunc_normal_,
    uniform_,
    zeros_,
)
from fx.nn.init.old_names import (
    constant,
    dirac,
    eye,
    kaiming_normal,
    kaiming_uniform,
    normal,
    orthogonal,
    sparse,
    uniform,
    xavier_normal,
    xavier_uniform,
)
from fx.nn.init.scaled import (
    bias_uniform_,
    calculate_gain,
    correct_fan,
    fan_in_and_fan_out,
    kaiming_normal_,
    kaiming_uniform_,
    xavier_normal_,
    xavier_uniform_,
)
from fx.nn.init.structured import dirac_, eye_, orthogonal_, sparse_
from fx.ops.operands import offered as _offered

# what scripts take from PyTorch although its name says that they should not
_calculate_fan_in_and_fan_out = fan_in_and_fan_out
_calculate_correct_fan = correct_fan

__all__ = _offered(globals())
