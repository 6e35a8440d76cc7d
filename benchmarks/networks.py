"""Convolutional networks for 32x32 images as they are published, for any library with that face.

``build(torch, name)`` makes one of ``NETWORKS`` from the ``nn`` of ``torch``, which may be
PyTorch's or ``fx.torch``. The activation is SiLU everywhere: a ReLU near zero takes one side or the
other by the rounding of what comes in, and the gradient jumps.
"""

from __future__ import annotations

from typing import Any

NETWORKS = ("ResNet-18", "VGG-16", "MobileNetV2", "ShuffleNetV2", "DLA-34")


def build(torch: Any, name: str) -> Any:
    """The network called ``name``: (batch, 3, 32, 32) to (batch, 10)."""
    return {
        "ResNet-18": _resnet,
        "VGG-16": _vgg,
        "MobileNetV2": _mobile,
        "ShuffleNetV2": _shuffle,
        "DLA-34": _aggregation,
    }[name](torch.nn, torch)


def _unit(nn: Any, i: int, o: int, k: int, step: int = 1, groups: int = 1, act: bool = True) -> Any:
    """A convolution, its normalisation and, if wanted, the activation."""
    parts = [nn.Conv2d(i, o, k, step, k // 2, groups=groups, bias=False), nn.BatchNorm2d(o)]
    return nn.Sequential(*parts, *[nn.SiLU()] * act)


def _residual(nn: Any) -> Any:
    class Residual(nn.Module):  # type: ignore[misc]
        def __init__(self, body: Any, short: Any, after: bool) -> None:
            super().__init__()
            self.body, self.short = body, short
            self.after = nn.SiLU() if after else nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.after(self.body(x) + self.short(x))

    return Residual


def _block(nn: Any, residual: Any, i: int, o: int, step: int) -> Any:
    """Two convolutions of 3x3 around which the input goes."""
    body = nn.Sequential(_unit(nn, i, o, 3, step), _unit(nn, o, o, 3, act=False))
    short = nn.Identity() if i == o else _unit(nn, i, o, 1, step, act=False)
    return residual(body, short, True)


def _resnet(nn: Any, torch: Any) -> Any:
    residual, i = _residual(nn), 64
    layers = [_unit(nn, 3, 64, 3)]
    for o, step in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(_block(nn, residual, i, o, step))
        i = o
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def _vgg(nn: Any, torch: Any) -> Any:
    layers, i = [], 3
    for count, o in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(count):
            layers.append(_unit(nn, i, o, 3))
            i = o
        layers.append(nn.AvgPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 10))


def _mobile(nn: Any, torch: Any) -> Any:
    residual, i = _residual(nn), 32
    layers = [_unit(nn, 3, 32, 3)]
    rows = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
    for expand, o, count, first in rows:
        for k in range(count):
            wide, step = expand * i, 1 if k else first
            body = nn.Sequential(
                _unit(nn, i, wide, 1),
                _unit(nn, wide, wide, 3, step, wide),
                _unit(nn, wide, o, 1, act=False),
            )
            same = step == 1 and i == o
            layers.append(residual(body, nn.Identity(), False) if same else body)
            i = o
    head = _unit(nn, 320, 1280, 1), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(1280, 10)
    return nn.Sequential(*layers, *head)


def _shuffle(nn: Any, torch: Any) -> Any:
    class Basic(nn.Module):  # type: ignore[misc]
        def __init__(self, i: int, o: int, step: int) -> None:
            super().__init__()
            half, self.step = o // 2, step
            inner = i if step == 2 else half
            self.right = nn.Sequential(
                _unit(nn, inner, half, 1),
                _unit(nn, half, half, 3, step, half, act=False),
                _unit(nn, half, half, 1),
            )
            if step == 2:
                depth = _unit(nn, i, i, 3, 2, i, act=False)
                self.left = nn.Sequential(depth, _unit(nn, i, half, 1))

        def forward(self, x: Any) -> Any:
            if self.step == 2:
                both = [self.left(x), self.right(x)]
            else:
                left, right = x.chunk(2, 1)
                both = [left, self.right(right)]
            out = torch.cat(both, 1)
            n, c, h, w = out.shape
            return out.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)

    layers, i = [_unit(nn, 3, 24, 3)], 24
    for o, count in ((116, 4), (232, 8), (464, 4)):
        for k in range(count):
            layers.append(Basic(i, o, 1 if k else 2))
            i = o
    head = _unit(nn, 464, 1024, 1), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(1024, 10)
    return nn.Sequential(*layers, *head)


def _aggregation(nn: Any, torch: Any) -> Any:
    """Deep layer aggregation (Yu et al., 2018), section 3: trees of residual blocks."""
    residual = _residual(nn)

    class Tree(nn.Module):  # type: ignore[misc]
        """Two trees, or blocks, one after the other; the last root sees what all above it gave.

        ``wide`` is how many channels those give.
        """

        def __init__(
            self, i: int, o: int, step: int, depth: int, wide: int = 0, stage: bool = False
        ) -> None:
            super().__init__()
            self.step, self.depth, self.stage = step, depth, stage
            wide += i * stage  # the input of a stage goes to its root
            if depth == 1:
                self.left = _block(nn, residual, i, o, step)
                self.right = _block(nn, residual, o, o, 1)
                self.root = _unit(nn, 2 * o + wide, o, 1)
            else:
                self.left = Tree(i, o, step, depth - 1)
                self.right = Tree(o, o, 1, depth - 1, wide + o)

        def forward(self, x: Any, above: Any = ()) -> Any:
            if self.stage:
                above = (*above, nn.functional.avg_pool2d(x, self.step))
            left = self.left(x)
            if self.depth > 1:
                return self.right(left, (*above, left))
            return self.root(torch.cat([left, self.right(left), *above], 1))

    layers = [_unit(nn, 3, 16, 3), _unit(nn, 16, 16, 3), _unit(nn, 16, 32, 3)]
    for i, o, step, depth in ((32, 64, 1, 1), (64, 128, 2, 2), (128, 256, 2, 2), (256, 512, 2, 1)):
        layers.append(Tree(i, o, step, depth, stage=step > 1))
    head = nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10)
    return nn.Sequential(*layers, *head)
