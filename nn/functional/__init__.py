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
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from fx.nn.functional.cross_entropy import cross_entropy, nll_loss
from fx.nn.functional.ctc import (
    ctc_loss,
)
from fx.nn.functional.distance import cosine_similarity, pairwise_distance, pdist
from fx.nn.functional.dropout import (
    alpha_dropout,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
)
from fx.nn.functional.embedding_bag import embedding_bag
from fx.nn.functional.fold import fold, unfold
from fx.nn.functional.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from fx.nn.functional.grids import affine_grid, grid_sample
from fx.nn.functional.grouped import grouped_mm
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
from fx.nn.functional.instance_norms import instance_norm, local_response_norm, rms_norm
from fx.nn.functional.interpolation import (
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from fx.nn.functional.linear import bilinear, linear
from fx.nn.functional.linear_cross_entropy import (
    linear_cross_entropy,
)
from fx.nn.functional.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    huber_loss,
    l1_loss,
    mse_loss,
    smooth_l1_loss,
)
from fx.nn.functional.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from fx.nn.functional.multi_head import (
    multi_head_attention_forward,
)
from fx.nn.functional.normalization import batch_norm, group_norm, layer_norm, normalize
from fx.nn.functional.padding import pad
from fx.nn.functional.pixels import (
    channel_shuffle,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
)
from fx.nn.functional.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from fx.nn.functional.power_pooling import lp_pool1d, lp_pool2d, lp_pool3d
from fx.nn.functional.probability_losses import (
    gaussian_nll_loss,
    kl_div,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
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
from fx.nn.functional.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from fx.nn.functional.with_indices import (
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d_with_indices,
    max_pool1d_with_indices,
    max_pool2d_with_indices,
    max_pool3d_with_indices,
)
from fx.ops.indexing.selecting import one_hot
from fx.ops.operands import offered as _offered

__all__ = _offered(globals())
