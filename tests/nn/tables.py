"""Every layer with its constructor's options, and the shapes of the inputs to compare it on.

A row is a layer's maker, given ``nn``, and the shapes of its inputs.
"""

ACTIVATIONS = [
    (lambda nn: nn.ReLU(), (2, 4)),
    (lambda nn: nn.ReLU(inplace=True), (2, 4)),
    (lambda nn: nn.ReLU6(True), (2, 4)),
    (lambda nn: nn.LeakyReLU(0.3), (2, 4)),
    (lambda nn: nn.LeakyReLU(inplace=True), (2, 4)),
    (lambda nn: nn.PReLU(), (2, 4)),
    (lambda nn: nn.PReLU(3, init=0.5), (2, 3, 4)),
    (lambda nn: nn.PReLU(4), (2, 4)),
    (lambda nn: nn.PReLU(), ()),
    (lambda nn: nn.RReLU(0.1, 0.3).eval(), (2, 4)),
    (lambda nn: nn.RReLU(inplace=True).eval(), (2, 4)),
    (lambda nn: nn.ELU(0.5), (2, 4)),
    (lambda nn: nn.ELU(inplace=True), (2, 4)),
    (lambda nn: nn.CELU(), (2, 4)),
    (lambda nn: nn.CELU(0.5, inplace=True), (2, 4)),
    (lambda nn: nn.SELU(), (2, 4)),
    (lambda nn: nn.SELU(True), (2, 4)),
    (lambda nn: nn.GELU(), (2, 4)),
    (lambda nn: nn.GELU(approximate="tanh"), (2, 4)),
    (lambda nn: nn.SiLU(), (2, 4)),
    (lambda nn: nn.Mish(), (2, 4)),
    (lambda nn: nn.Mish(inplace=True), (2, 4)),
    (lambda nn: nn.Sigmoid(), (2, 4)),
    (lambda nn: nn.LogSigmoid(), (2, 4)),
    (lambda nn: nn.Hardsigmoid(), (5, 4)),
    (lambda nn: nn.Hardsigmoid(True), (2, 4)),
    (lambda nn: nn.Hardswish(), (5, 4)),
    (lambda nn: nn.Hardswish(inplace=True), (2, 4)),
    (lambda nn: nn.Hardtanh(), (2, 4)),
    (lambda nn: nn.Hardtanh(-0.3, 0.2, True), (2, 4)),
    (lambda nn: nn.Tanh(), (2, 4)),
    (lambda nn: nn.Tanhshrink(), (2, 4)),
    (lambda nn: nn.Hardshrink(), (2, 4)),
    (lambda nn: nn.Hardshrink(1.1), (2, 4)),
    (lambda nn: nn.Softshrink(), (2, 4)),
    (lambda nn: nn.Softshrink(0.2), (2, 4)),
    (lambda nn: nn.Softplus(), (2, 4)),
    (lambda nn: nn.Softplus(2, 3), (2, 4)),
    (lambda nn: nn.Softsign(), (2, 4)),
    (lambda nn: nn.Threshold(0.1, 20), (2, 4)),
    (lambda nn: nn.Threshold(0.1, 20.0, inplace=True), (2, 4)),
    (lambda nn: nn.GLU(), (2, 4)),
    (lambda nn: nn.GLU(dim=0), (2, 4)),
    (lambda nn: nn.Softmax(dim=1), (2, 4)),
    (lambda nn: nn.LogSoftmax(dim=-1), (2, 4)),
    (lambda nn: nn.Softmin(dim=1), (2, 4)),
    (lambda nn: nn.Softmax2d(), (2, 3, 4, 2)),
    (lambda nn: nn.Softmax2d(), (3, 4, 2)),
]

LINEAR = [
    (lambda nn: nn.Linear(4, 3), (2, 4)),
    (lambda nn: nn.Linear(4, 3, bias=False), (2, 5, 4)),
    (lambda nn: nn.Linear(4, 3), (4,)),
    (lambda nn: nn.Bilinear(4, 3, 5), (2, 4), (2, 3)),
    (lambda nn: nn.Bilinear(4, 3, 5, bias=False), (2, 6, 4), (2, 6, 3)),
    (lambda nn: nn.Bilinear(4, 3, 5), (4,), (3,)),
    (lambda nn: nn.Identity(7, unused=1), (2, 4)),
    (lambda nn: nn.Flatten(), (2, 3, 4)),
    (lambda nn: nn.Flatten(0, 1), (2, 3, 4)),
    (lambda nn: nn.Unflatten(1, (2, 2)), (2, 4)),
    (lambda nn: nn.CosineSimilarity(), (3, 4), (3, 4)),
    (lambda nn: nn.CosineSimilarity(dim=0, eps=0.1), (3, 4), (4,)),
    (lambda nn: nn.CosineSimilarity(dim=-1), (2, 1, 4), (3, 4)),
    (lambda nn: nn.PairwiseDistance(), (3, 4), (3, 4)),
    (lambda nn: nn.PairwiseDistance(p=1.0, eps=0.1, keepdim=True), (3, 4), (4,)),
    (lambda nn: nn.PairwiseDistance(p=3), (2, 3, 4), (3, 4)),
    (lambda nn: nn.PairwiseDistance(p=float("inf")), (4,), (4,)),
]

CONVOLUTIONS = [
    (lambda nn: nn.Conv1d(4, 6, 3, padding=1), (2, 4, 7)),
    (lambda nn: nn.Conv1d(4, 6, 3, 2, 2, 2, 2, False), (4, 9)),
    (lambda nn: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), groups=2), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 3, padding="same", bias=False, dilation=2), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 4, 3, padding="valid", groups=4), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 3, padding=(0, 2)), (4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 3, padding=(2, 1), padding_mode="replicate"), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 3, padding="same", padding_mode="circular"), (2, 4, 7, 6)),
    (lambda nn: nn.Conv2d(4, 6, 2, padding="valid", padding_mode="circular"), (2, 4, 7, 6)),
    (lambda nn: nn.Conv1d(4, 6, 3, padding=2, padding_mode="replicate"), (2, 4, 7)),
    (lambda nn: nn.Conv1d(4, 6, 3, padding=2, padding_mode="reflect"), (4, 7)),
    (lambda nn: nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular"), (2, 4, 7)),
    (lambda nn: nn.Conv3d(2, 3, 2, stride=2), (2, 2, 4, 5, 4)),
    (lambda nn: nn.Conv3d(2, 3, 3, padding=1, padding_mode="circular"), (1, 2, 4, 5, 4)),
    (lambda nn: nn.Conv3d(2, 3, (3, 1, 2), padding=(1, 0, 1), dilation=(1, 2, 1)), (2, 4, 5, 4)),
    (lambda nn: nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 5)),
    (lambda nn: nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2, False, 2), (4, 5)),
    (lambda nn: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 3, 4)),
    (lambda nn: nn.ConvTranspose2d(4, 4, (2, 3), groups=4, dilation=(2, 1)), (2, 4, 3, 4)),
    (lambda nn: nn.ConvTranspose3d(2, 4, 2, groups=2, bias=False), (1, 2, 3, 3, 2)),
    (
        lambda nn: nn.ConvTranspose3d(2, 4, 3, stride=(1, 2, 3), output_padding=(0, 1, 2)),
        (2, 2, 2, 2),
    ),
]

PADDING = [
    *[
        (lambda nn, name=f"{kind}Pad{rank}d", width=width: getattr(nn, name)(width), shape)
        for rank, shape in ((1, (2, 3, 5)), (2, (2, 4, 5)), (3, (2, 2, 3, 4, 5)))
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for width in (2, (1, 2, 0, 1, 2, 1)[: 2 * rank])
    ],
    (lambda nn: nn.ConstantPad1d(2, 3.5), (2, 3, 5)),
    (lambda nn: nn.ConstantPad1d((3, -1), 2), (5,)),
    (lambda nn: nn.ConstantPad2d((1, 0, -1, 2), -1.0), (2, 3, 4)),
    (lambda nn: nn.ConstantPad3d(1, 0.5), (2, 2, 3, 2)),
    (lambda nn: nn.ZeroPad2d((-1, -1, 0, 1)), (2, 3, 4)),
    (lambda nn: nn.ReflectionPad1d((-1, 2)), (2, 6)),
    (lambda nn: nn.ReplicationPad1d((2, -2)), (2, 3, 6)),
    (lambda nn: nn.CircularPad2d((-1, 2, 1, -1)), (1, 2, 4, 5)),
]

POOLING = [
    (lambda nn: nn.MaxPool1d(2), (2, 3, 7)),
    (lambda nn: nn.MaxPool1d(3, 2, 1, ceil_mode=True), (3, 8)),
    (lambda nn: nn.MaxPool2d(3, 2, 1, ceil_mode=True), (2, 3, 8, 7)),
    (lambda nn: nn.MaxPool2d((2, 3), (1, 2), (1, 0), (2, 1)), (3, 8, 7)),
    (lambda nn: nn.MaxPool2d(4, 3, ceil_mode=True), (2, 3, 2, 3)),
    (lambda nn: nn.MaxPool3d(2), (1, 2, 4, 4, 5)),
    (lambda nn: nn.MaxPool3d(3, 2, 1, 2, ceil_mode=True), (2, 6, 6, 7)),
    (lambda nn: nn.AvgPool1d(2), (2, 3, 7)),
    (lambda nn: nn.AvgPool1d(3, 2, 1, True, False), (3, 8)),
    (lambda nn: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (2, 3, 8, 7)),
    (lambda nn: nn.AvgPool2d((2, 3), 2, ceil_mode=True, divisor_override=5), (3, 8, 8)),
    (lambda nn: nn.AvgPool2d(4, 3, ceil_mode=True), (2, 3, 2, 3)),
    (lambda nn: nn.AvgPool3d((1, 2, 2)), (1, 2, 4, 4, 5)),
    (lambda nn: nn.AvgPool3d(2, 1, 1, True, False, 3), (2, 3, 4, 3)),
    (lambda nn: nn.LPPool1d(2, 3), (2, 3, 7)),
    (lambda nn: nn.LPPool1d(4, 2, stride=3, ceil_mode=True), (3, 7)),
    (lambda nn: nn.LPPool2d(2.0, (2, 3), stride=2), (2, 3, 6, 7)),
    (lambda nn: nn.LPPool2d(float("inf"), 2), (2, 3, 6, 7)),
    (lambda nn: nn.LPPool2d(4, 3, 2, ceil_mode=True), (3, 6, 8)),
    (lambda nn: nn.LPPool3d(1, 2), (1, 2, 4, 4, 5)),
    (lambda nn: nn.AdaptiveAvgPool1d(3), (2, 3, 7)),
    (lambda nn: nn.AdaptiveAvgPool2d((1, None)), (2, 3, 7, 5)),
    (lambda nn: nn.AdaptiveAvgPool2d(5), (3, 3, 7)),
    (lambda nn: nn.AdaptiveAvgPool3d(2), (1, 2, 4, 5, 3)),
    (lambda nn: nn.AdaptiveMaxPool1d(3), (2, 3, 7)),
    (lambda nn: nn.AdaptiveMaxPool1d(9), (3, 4)),
    (lambda nn: nn.AdaptiveMaxPool2d((1, None)), (2, 3, 7, 5)),
    (lambda nn: nn.AdaptiveMaxPool2d((3, 2)), (3, 7, 5)),
    (lambda nn: nn.AdaptiveMaxPool2d(2), (2, 3, 4, 6)),
    (lambda nn: nn.AdaptiveMaxPool3d((2, 3, 2)), (1, 2, 4, 5, 3)),
]

NORMALISATION = [
    (lambda nn: nn.LayerNorm((3, 4)), (2, 3, 4)),
    (lambda nn: nn.LayerNorm(4, elementwise_affine=False, eps=0.1), (2, 3, 4)),
    (lambda nn: nn.LayerNorm(4, bias=False), (2, 3, 4)),
    (lambda nn: nn.RMSNorm(4), (2, 3, 4)),
    (lambda nn: nn.RMSNorm((3, 4), eps=0.1), (2, 3, 4)),
    (lambda nn: nn.RMSNorm([4], elementwise_affine=False), (4,)),
    (lambda nn: nn.GroupNorm(2, 4), (2, 4, 5)),
    (lambda nn: nn.GroupNorm(2, 4, affine=False), (2, 4, 5)),
    (lambda nn: nn.GroupNorm(4, 4, eps=0.1, bias=False), (2, 4, 5, 2)),
    (lambda nn: nn.GroupNorm(1, 4), (2, 4)),
    (lambda nn: nn.InstanceNorm1d(3), (2, 3, 5)),
    (lambda nn: nn.InstanceNorm1d(3, affine=True, eps=0.1), (3, 5)),
    (lambda nn: nn.InstanceNorm1d(3, affine=True, bias=False), (2, 3, 5)),
    (lambda nn: nn.InstanceNorm2d(3, track_running_stats=True), (2, 3, 4, 2)),
    (lambda nn: nn.InstanceNorm2d(3, 1e-3, 0.3, True, True), (3, 4, 2)),
    (lambda nn: nn.InstanceNorm2d(3, momentum=None, track_running_stats=True), (2, 3, 4, 2)),
    (lambda nn: nn.InstanceNorm3d(3, affine=True, track_running_stats=True), (2, 3, 2, 2, 2)),
    (lambda nn: nn.BatchNorm1d(3), (4, 3)),
    (lambda nn: nn.BatchNorm1d(3, momentum=None), (4, 3, 5)),
    (lambda nn: nn.BatchNorm1d(3, bias=False), (4, 3)),
    (lambda nn: nn.BatchNorm2d(3, eps=0.1, momentum=0.3), (2, 3, 4, 2)),
    (lambda nn: nn.BatchNorm2d(3, affine=False), (2, 3, 4, 2)),
    (lambda nn: nn.BatchNorm2d(3, track_running_stats=False), (2, 3, 4, 2)),
    (lambda nn: nn.BatchNorm3d(3), (2, 3, 2, 2, 2)),
    (lambda nn: nn.SyncBatchNorm(3), (4, 3)),
    (lambda nn: nn.SyncBatchNorm(3, 0.1, None, bias=False), (2, 3, 4, 2)),
    (lambda nn: nn.LocalResponseNorm(3), (2, 5, 4)),
    (lambda nn: nn.LocalResponseNorm(4, 0.1, 0.5, 2.0), (2, 5, 4, 3)),
    (lambda nn: nn.LocalResponseNorm(2, 0.1), (2, 5, 2, 2, 2)),
]

REARRANGING = [
    (lambda nn: nn.Unfold(2), (2, 3, 4, 5)),
    (lambda nn: nn.Unfold((2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)), (3, 4, 5)),
    (lambda nn: nn.Fold((4, 5), 2), (2, 12, 12)),
    (lambda nn: nn.Fold((4, 5), (2, 3), (2, 1), (1, 2), (1, 2)), (18, 16)),
    (lambda nn: nn.PixelShuffle(2), (2, 8, 3, 4)),
    (lambda nn: nn.PixelShuffle(3), (9, 2, 1)),
    (lambda nn: nn.PixelUnshuffle(2), (2, 3, 4, 6)),
    (lambda nn: nn.PixelUnshuffle(2), (1, 2, 3, 4, 6)),
    (lambda nn: nn.ChannelShuffle(2), (2, 6, 3, 2)),
    (lambda nn: nn.ChannelShuffle(3), (2, 6, 4)),
    (lambda nn: nn.Upsample(scale_factor=2), (2, 3, 4)),
    (lambda nn: nn.Upsample(size=7), (2, 3, 4)),
    (lambda nn: nn.Upsample(size=(3, 7), mode="nearest-exact"), (2, 2, 4, 5)),
    (lambda nn: nn.Upsample(scale_factor=1.7, mode="linear"), (2, 3, 4)),
    (lambda nn: nn.Upsample(scale_factor=(1.5, 0.5), mode="bilinear"), (2, 2, 4, 5)),
    (lambda nn: nn.Upsample(None, 1.7, "bicubic", True, True), (1, 2, 4, 5)),
    (lambda nn: nn.Upsample(size=(3, 5, 4), mode="trilinear"), (1, 2, 2, 3, 4)),
    (lambda nn: nn.UpsamplingNearest2d(scale_factor=2), (2, 2, 3, 4)),
    (lambda nn: nn.UpsamplingNearest2d(size=(5, 2)), (2, 2, 3, 4)),
    (lambda nn: nn.UpsamplingBilinear2d(scale_factor=2), (2, 2, 3, 4)),
    (lambda nn: nn.UpsamplingBilinear2d(size=(5, 2)), (2, 2, 3, 4)),
]

DROPOUT = [
    (lambda nn, name=name: getattr(nn, name)(0.0), shape)
    for name, shape in (
        ("Dropout", (2, 4)),
        ("Dropout1d", (2, 3, 4)),
        ("Dropout2d", (2, 3, 4, 2)),
        ("Dropout3d", (2, 3, 2, 2, 2)),
        ("AlphaDropout", (2, 4)),
        ("FeatureAlphaDropout", (2, 3, 4)),
    )
] + [
    (lambda nn: nn.Dropout(0.5).eval(), (2, 4)),
    (lambda nn: nn.Dropout2d(0.5, inplace=True).eval(), (2, 3, 4, 2)),
    (lambda nn: nn.AlphaDropout(0.5).eval(), (2, 4)),
    (lambda nn: nn.Dropout(1.0), (2, 4)),
    (lambda nn: nn.AlphaDropout(1.0), (2, 4)),
]

TABLES = {
    "activations": ACTIVATIONS,
    "linear": LINEAR,
    "convolutions": CONVOLUTIONS,
    "padding": PADDING,
    "pooling": POOLING,
    "normalisation": NORMALISATION,
    "rearranging": REARRANGING,
    "dropout": DROPOUT,
}
LAYERS = [row for table in TABLES.values() for row in table]


def row_name(row):
    """What a row's maker makes, with the shapes, for a test's name."""
    import fx

    return f"{row[0](fx.nn)!r} {row[1:]}"


def one_a_class():
    """The first row of each class."""
    import fx

    found = {}
    for row in LAYERS:
        found.setdefault(type(row[0](fx.nn)).__name__, row)
    return list(found.values())
