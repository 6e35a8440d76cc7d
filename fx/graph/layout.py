"""Layout: a place for every node of a drawing, in layers from the inputs down to the outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from fx.slotted import slotted

LAYER = 74.0  # from the top of one layer to the top of the next
HEIGHT = 34.0
_GAP = 18.0
_SWEEPS = 6


@slotted(eq=False)
class Box:
    """A rectangle to be placed.

    Attributes:
        width: known before.
        x: of its centre.
        layer: 0 at the top.
        above, below: the boxes that it is joined to.
    """

    width: float
    x: float = 0.0
    layer: int = 0
    above: list[Box] = field(default_factory=list)
    below: list[Box] = field(default_factory=list)

    @property
    def top(self) -> float:
        """The y of its upper edge."""
        return self.layer * LAYER + 12.0


def place(boxes: Sequence[Box]) -> tuple[float, float]:
    """Give every box its layer and its x; the width and height of the whole.

    Args:
        boxes: each after those above it.

    A box stands one layer below the lowest that is above it; those with nothing above them are
    moved down to what they are joined to. Within a layer the order follows the means of neighbours,
    by sweeps down and up (Sugiyama, Tagawa and Toda 1981).
    """
    for box in boxes:
        box.layer = max([b.layer + 1 for b in box.above], default=0)
    for box in boxes:
        if not box.above and box.below:
            box.layer = min([b.layer for b in box.below]) - 1
    layers: list[list[Box]] = [[] for _ in range(max([b.layer for b in boxes], default=-1) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            wanted = [_mean(box, down) for box in layer]
            order = sorted(range(len(layer)), key=wanted.__getitem__)
            layer[:] = [layer[i] for i in order]
            _spread(layer, [wanted[i] for i in order])
    left = min([b.x - b.width / 2 for b in boxes], default=0.0) - 12
    right = max([b.x + b.width / 2 for b in boxes], default=0.0) + 12
    for box in boxes:
        box.x -= left
    return right - left, len(layers) * LAYER - (LAYER - HEIGHT) + 24


def _mean(box: Box, down: bool) -> float:
    near = (box.above or box.below) if down else (box.below or box.above)
    return sum([b.x for b in near]) / len(near) if near else box.x


def _spread(layer: list[Box], wanted: Sequence[float]) -> None:
    """Put boxes as near to where they want to be as their order and widths allow.

    Neighbours that would overlap become one block, which stands where its boxes want it on average.
    """
    blocks: list[tuple[float, int, list[Box], list[float]]] = []  # mean start, count, boxes, places
    for box, want in zip(layer, wanted):
        start, count, members, offsets = want - box.width / 2, 1, [box], [0.0]
        while blocks:
            before, n, boxes, places = blocks[-1]
            size = places[-1] + boxes[-1].width + _GAP
            if before + size <= start:
                break
            blocks.pop()
            start = (before * n + (start - size) * count) / (n + count)
            members, offsets = boxes + members, places + [size + o for o in offsets]
            count += n
        blocks.append((start, count, members, offsets))
    for start, _, members, offsets in blocks:
        for box, offset in zip(members, offsets):
            box.x = start + offset + box.width / 2
