"""Layers as functions of tensors and weights, with PyTorch's names, arguments and defaults.

``inplace=True`` is accepted where PyTorch has it and changes nothing: a tensor never changes, and
the result is the same.
"""

from fx.nn.functional.activation import (
    elu,
    gelu,
    hardtanh,
    leaky_relu,
    log_softmax,
    logsigmoid,
    relu,
    relu6,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    tanh,
)
from fx.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from fx.nn.functional.attention import scaled_dot_product_attention
from fx.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from fx.nn.functional.cross_entropy import cross_entropy, nll_loss
from fx.nn.functional.dropout import dropout
from fx.nn.functional.gumbel import gumbel_softmax
from fx.nn.functional.inplace import (
    celu_,
    elu_,
    hardtanh_,
    leaky_relu_,
    relu_,
    rrelu_,
    selu_,
    threshold_,
)
from fx.nn.functional.linear import linear
from fx.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from fx.nn.functional.normalization import batch_norm, group_norm, layer_norm, normalize
from fx.nn.functional.padding import pad
from fx.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from fx.nn.functional.rectifiers import (
    celu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    mish,
    prelu,
    rrelu,
    selu,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from fx.nn.functional.sparse import embedding
from fx.ops.selecting import one_hot

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu",
    "elu_",
    "embedding",
    "gelu",
    "glu",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "huber_loss",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "logsigmoid",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]
