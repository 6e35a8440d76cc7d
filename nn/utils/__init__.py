"""Helpers over the parameters of a model, with PyTorch's names."""

from fx.nn.utils import (
    fusion,
    parametrizations,
    parametrize,
    prune,
    rnn,
    stateless,
)
from fx.nn.utils._skip_init import skip_init
from fx.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from fx.nn.utils.gradients import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from fx.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from fx.nn.utils.weight_norm import remove_weight_norm, weight_norm
from fx.ops.operands import offered as _offered

__all__ = _offered(
    globals(), "fusion", "parametrizations", "parametrize", "prune", "rnn", "stateless"
)
