"""Modules, layers, functional forms and initialisers, with PyTorch's names and defaults."""

from fx.nn import functional, init, modules, utils
from fx.nn.base.containers import ModuleDict, ModuleList, Sequential
from fx.nn.base.module import Module
from fx.nn.base.parameter_containers import ParameterDict, ParameterList
from fx.nn.base.skeleton import functional_call
from fx.nn.base.uninitialized import UninitializedBuffer, UninitializedParameter
from fx.nn.ensembles import declare_reduction, stack_module_state
from fx.nn.feature_extractor import feature_extractor
from fx.nn.functional.linear_cross_entropy import (
    LinearCrossEntropyOptions,
)
from fx.nn.layers.activation import (
    ELU,
    GELU,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from fx.nn.layers.adaptive_pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from fx.nn.layers.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from fx.nn.layers.distance import CosineSimilarity, PairwiseDistance
from fx.nn.layers.dropout import (
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from fx.nn.layers.embedding_bag import EmbeddingBag
from fx.nn.layers.fold import ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unfold
from fx.nn.layers.instance_norms import (
    CrossMapLRN2d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LocalResponseNorm,
    RMSNorm,
    SyncBatchNorm,
)
from fx.nn.layers.lazy import (
    LazyBatchNorm1d,
    LazyBatchNorm2d,
    LazyBatchNorm3d,
    LazyConv1d,
    LazyConv2d,
    LazyConv3d,
    LazyConvTranspose1d,
    LazyConvTranspose2d,
    LazyConvTranspose3d,
    LazyInstanceNorm1d,
    LazyInstanceNorm2d,
    LazyInstanceNorm3d,
    LazyLinear,
)
from fx.nn.layers.linear import Bilinear, Flatten, Identity, Linear, Unflatten
from fx.nn.layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, LayerNorm
from fx.nn.layers.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from fx.nn.layers.pooling import (
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from fx.nn.layers.rectifiers import (
    CELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    Mish,
    PReLU,
    RReLU,
    Softmax2d,
    Softmin,
    Softshrink,
    Softsign,
    Tanhshrink,
    Threshold,
)
from fx.nn.layers.sparse import Embedding
from fx.nn.layers.unpooling import (
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from fx.nn.layers.upsampling import Upsample, UpsamplingBilinear2d, UpsamplingNearest2d
from fx.nn.losses.adaptive import (
    AdaptiveLogSoftmaxWithLoss,
)
from fx.nn.losses.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from fx.nn.losses.margin_losses import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from fx.nn.losses.probability_losses import (
    CTCLoss,
    GaussianNLLLoss,
    KLDivLoss,
    LinearCrossEntropyLoss,
    MultiLabelSoftMarginLoss,
    NLLLoss2d,
    PoissonNLLLoss,
    SoftMarginLoss,
)
from fx.nn.parallel import DataParallel
from fx.nn.parameter import Buffer, Parameter
from fx.nn.sequences.attention import (
    MultiheadAttention,
)
from fx.nn.sequences.rnn import GRU, LSTM, RNN
from fx.nn.sequences.rnn_base import RNNBase
from fx.nn.sequences.rnn_cells import (
    GRUCell,
    LSTMCell,
    RNNCell,
    RNNCellBase,
)
from fx.nn.sequences.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
)
from fx.nn.sequences.transformer_layers import (
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from fx.ops.operands import offered as _offered

__all__ = _offered(globals(), "functional", "init", "modules", "utils")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("initializers", "functions"):
        return import_module(f"fx.nn.{name}")
    functions = import_module("fx.nn.functions")
    if name in functions.NAMES:
        return getattr(functions, name)
    raise AttributeError(f"module 'fx.nn' has no attribute {name!r}")
