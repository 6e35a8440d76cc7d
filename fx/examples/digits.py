"""Handwritten digits: a LeNet trained twice, as a pure function and as a PyTorch-style script.

Both begin with the same weights and see the same batches, so their losses agree to rounding. Then
``vmap`` of ``grad`` gives the gradient of every test image by itself: the images with the longest
gradients are those that surprise the network most. Run it with

    python -m fx.examples.digits --out digits.png
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Sequence
from typing import Any

import fx
from fx import nn, optim
from fx.data import DataLoader, TensorDataset, random_split
from fx.nn import functional as F
from fx.optim import pure

Params = dict[str, fx.Tensor]

TRAIN_SHARE = 0.8
BATCH = 64
LEARNING_RATE = 8e-3
AGREEMENT = 1e-4  # by how much the two loss curves may differ


def load(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """scikit-learn's 1,797 digits: images (n, 1, 8, 8) in [0, 1] and labels (n,), cut in two."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = fx.tensor(bunch.images, dtype=fx.float32).unsqueeze(1) / 16.0
    labels = fx.tensor(bunch.target, dtype=fx.int64)
    everything = TensorDataset(images, labels)
    generator = fx.Generator().manual_seed(seed)
    parts = random_split(everything, [TRAIN_SHARE, 1 - TRAIN_SHARE], generator)
    train, test = (TensorDataset(*everything[part.indices]) for part in parts)
    return train, test


class LeNet(nn.Module):
    """Two convolutions, each halved by pooling, and two linear layers: 8 x 8 pixels to 10."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(64 * 2 * 2, 128)
        self.fc2 = nn.Linear(128, 10)
        self.relu = nn.ReLU()

    def forward(self, x: fx.Tensor) -> fx.Tensor:
        """Images (n, 1, 8, 8) to logits (n, 10)."""
        x = self.pool(self.relu(self.conv1(x)))  # (n, 32, 4, 4)
        x = self.pool(self.relu(self.conv2(x)))  # (n, 64, 2, 2)
        x = x.flatten(1)  # (n, 256)
        return self.fc2(self.relu(self.fc1(x)))


def lenet(params: Params, x: fx.Tensor) -> fx.Tensor:
    """The same network as a function of its parameters."""
    x = F.conv2d(x, params["conv1.weight"], params["conv1.bias"], padding=1)
    x = F.max_pool2d(F.relu(x), 2)  # (n, 32, 4, 4)
    x = F.conv2d(x, params["conv2.weight"], params["conv2.bias"], padding=1)
    x = F.max_pool2d(F.relu(x), 2)  # (n, 64, 2, 2)
    x = F.relu(F.linear(x.flatten(1), params["fc1.weight"], params["fc1.bias"]))
    return F.linear(x, params["fc2.weight"], params["fc2.bias"])


def loss_fn(params: Params, x: fx.Tensor, y: fx.Tensor) -> fx.Tensor:
    """The mean cross-entropy of images (n, 1, 8, 8) and labels (n,)."""
    return F.cross_entropy(lenet(params, x), y)


# training ---------------------------------------------------------------------------------------


def batches(train: TensorDataset, seed: int) -> DataLoader:
    """A loader that shuffles anew in each epoch, the same way for the same seed."""
    generator = fx.Generator().manual_seed(seed)
    return DataLoader(train, BATCH, shuffle=True, drop_last=True, generator=generator)


def progress(steps: int, what: str) -> Any:
    """A progress bar."""
    from tqdm import tqdm

    return tqdm(total=steps, desc=f"{what:>10}", unit="step")


def decay(epoch: int, epochs: int) -> float:
    """The share of the learning rate that is left: half a cosine, from 1 to 0."""
    return (1 + math.cos(math.pi * epoch / epochs)) / 2


def train_functional(
    params: Params, train: TensorDataset, epochs: int, seed: int
) -> tuple[Params, list[float]]:
    """Parameters go in, new parameters come out."""
    loader = batches(train, seed)
    state = pure.adam().init(params)
    losses = []
    with progress(epochs * len(loader), "functional") as bar:
        for epoch in range(epochs):
            update = pure.adam(lr=LEARNING_RATE * decay(epoch, epochs)).update
            for x, y in loader:
                loss, grads = fx.value_and_grad(loss_fn)(params, x, y)
                params, state = update(grads, state, params)
                losses.append(loss.item())
                bar.update()
    return params, losses


def train_stateful(model: LeNet, train: TensorDataset, epochs: int, seed: int) -> list[float]:
    """The script as one writes it for PyTorch: the model learns in place."""
    loader = batches(train, seed)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=LEARNING_RATE)
    scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: decay(epoch, epochs))
    losses = []
    with progress(epochs * len(loader), "stateful") as bar:
        for _ in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                bar.update()
            scheduler.step()
    return losses


# what it learned --------------------------------------------------------------------------------


def predict(params: Params, images: fx.Tensor) -> fx.Tensor:
    """Probabilities (n, 10)."""
    return F.softmax(lenet(params, images), dim=1)


def gradient_norms(params: Params, images: fx.Tensor, labels: fx.Tensor) -> fx.Tensor:
    """The length of the gradient of each sample by itself, (n,)."""

    def norm_of_one(x: fx.Tensor, y: fx.Tensor) -> fx.Tensor:
        gradient = fx.grad(loss_fn)(params, x.unsqueeze(0), y.unsqueeze(0))
        return fx.sqrt(sum((g * g).sum() for g in gradient.values()))

    return fx.vmap(norm_of_one)(images, labels)


# the picture ------------------------------------------------------------------------------------

INK, MUTED, GRID = "#1f2430", "#6b7280", "#e5e7eb"
BLUE, ORANGE, GREEN, RED = "#2563eb", "#f59e0b", "#15803d", "#dc2626"


def draw(path: str, test: TensorDataset, result: dict[str, Any]) -> None:
    """Loss curves, gradient norms, some predictions and the most surprising samples, as one PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    style = {
        "font.size": 10,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with plt.rc_context(style):
        figure = plt.figure(figsize=(11, 8.2), dpi=130, facecolor="white")
        rows = figure.add_gridspec(
            3, 1, height_ratios=(2.5, 1.0, 1.7), hspace=0.5, top=0.885, bottom=0.035,
            left=0.07, right=0.975,
        )  # fmt: skip
        figure.suptitle(
            f"LeNet on handwritten digits: {result['accuracy']:.1%} of "
            f"{len(test)} test images recognised",
            x=0.07, y=0.965, ha="left", fontsize=15, fontweight="bold",
        )  # fmt: skip
        top = rows[0].subgridspec(1, 2, width_ratios=(1.9, 1), wspace=0.2)
        _draw_losses(figure.add_subplot(top[0]), result)
        _draw_norms(figure.add_subplot(top[1]), result)
        _draw_predictions(figure, rows[1].subgridspec(1, 12, wspace=0.25), test, result)
        _draw_surprising(figure, rows[2].subgridspec(1, 5), test, result)
        figure.savefig(path)
        plt.close(figure)


def _draw_losses(axes: Any, result: dict[str, Any]) -> None:
    functional, stateful = result["functional"], result["stateful"]
    per_epoch = len(functional) / result["epochs"]
    steps = [i / per_epoch for i in range(1, len(functional) + 1)]
    axes.plot(steps, functional, color=BLUE, linewidth=4, alpha=0.35, label="functional")
    axes.plot(steps, stateful, color=INK, linewidth=0.9, label="stateful")
    axes.set_yscale("log")
    axes.set_xlim(0, result["epochs"])
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.set_xticks(range(0, result["epochs"] + 1, max(1, result["epochs"] // 5)))
    axes.set_xlabel("epoch")
    axes.set_title("Training loss of each batch", loc="left", fontsize=11)
    gap = f"largest gap {result['gap']:.1e}" if result["gap"] else "equal to the last bit"
    axes.legend(frameon=False, loc="upper right", title=gap)


def _draw_norms(axes: Any, result: dict[str, Any]) -> None:
    import numpy as np

    norms = np.maximum(result["norms"], 1e-12)
    low, high = np.floor(np.log10(norms.min())), np.ceil(np.log10(norms.max()))
    axes.hist(norms, bins=np.logspace(low, high, 36), color=BLUE, alpha=0.55)
    least = min(norms[i] for i in result["surprising"])
    axes.axvline(least, color=ORANGE, linewidth=1.5)
    axes.annotate(
        "the five\nbelow", (least, 0.97), xycoords=("data", "axes fraction"),
        xytext=(-5, 0), textcoords="offset points", ha="right", va="top", color="#b45309",
    )  # fmt: skip
    axes.set_xscale("log")
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.set_xlabel("gradient norm of one test image")
    axes.set_title("Per-sample gradients by vmap(grad)", loc="left", fontsize=11)


def _draw_predictions(figure: Any, grid: Any, test: TensorDataset, result: dict[str, Any]) -> None:
    images, labels = (t.numpy() for t in test.tensors)
    for place, i in enumerate(range(min(12, len(test)))):
        axes = figure.add_subplot(grid[place])
        axes.set_anchor("W")
        _show(axes, images[i, 0])
        right = result["predicted"][i] == labels[i]
        axes.set_title(
            f"{result['predicted'][i]}", fontsize=13, color=GREEN if right else RED,
            fontweight="bold", pad=4,
        )  # fmt: skip
        if place == 0:
            _heading(axes, "Test images and what the network reads", 1.42)


def _draw_surprising(figure: Any, grid: Any, test: TensorDataset, result: dict[str, Any]) -> None:
    images, labels = (t.numpy() for t in test.tensors)
    for place, i in enumerate(result["surprising"]):
        axes = figure.add_subplot(grid[place])
        _show(axes, images[i, 0])
        read, right = result["predicted"][i], result["predicted"][i] == labels[i]
        verdict = f"read as {read} ({result['certainty'][i]:.0%})"
        axes.set_anchor("W")
        title = {"loc": "left", "fontsize": 10, "color": GREEN if right else RED, "pad": 4}
        axes.set_title(f"a {labels[i]}, {verdict}", **title)
        axes.set_xlabel(f"gradient norm {result['norms'][i]:.1f}", color=MUTED, loc="left")
        if place == 0:
            _heading(axes, "The five most surprising: longest gradients", 1.24)


def _show(axes: Any, image: Any) -> None:
    axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color(GRID)


def _heading(axes: Any, text: str, height: float) -> None:
    axes.text(0, height, text, transform=axes.transAxes, fontsize=11, va="bottom", ha="left")


# the program ------------------------------------------------------------------------------------


def run(epochs: int, seed: int, train: TensorDataset, test: TensorDataset) -> dict[str, Any]:
    """Train twice and measure.

    Returns:
        the two loss curves and their gap, the test accuracy, predictions, gradient norms.
    """
    fx.manual_seed(seed)
    model = LeNet()
    start = dict(model.state_dict())
    params, functional = train_functional(start, train, epochs, seed)
    stateful = train_stateful(model, train, epochs, seed)
    images, labels = test.tensors
    probabilities = predict(params, images)
    predicted = probabilities.argmax(1)
    norms = gradient_norms(params, images, labels)
    return {
        "epochs": epochs,
        "functional": functional,
        "stateful": stateful,
        "gap": max(abs(a - b) for a, b in zip(functional, stateful, strict=True)),
        "accuracy": (predicted == labels).astype(fx.float32).mean().item(),
        "stateful_accuracy": (model(images).argmax(1) == labels).astype(fx.float32).mean().item(),
        "predicted": predicted.numpy(),
        "certainty": probabilities.max(1).values.numpy(),
        "norms": norms.numpy(),
        "surprising": fx.argsort(norms, descending=True)[:5].tolist(),
    }


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    """The command line; gives what ``run`` gives.

    Raises:
        SystemExit: if a package is missing, or the two loss curves differ.
    """
    parser = argparse.ArgumentParser(prog="python -m fx.examples.digits", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--epochs", type=int, default=20, help="rounds over the data (20)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, split and batches (0)")
    parser.add_argument("--out", default="fx-demo-digits.png", help="the picture")
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error("--epochs must be at least 1")
    for package in ("sklearn", "matplotlib", "tqdm"):
        _require(package)

    began = time.perf_counter()
    train, test = load(options.seed)
    print(f"{len(train)} training and {len(test)} test images of 8 x 8 pixels")
    result = run(options.epochs, options.seed, train, test)
    print(
        f"test accuracy       {result['accuracy']:.2%} (stateful {result['stateful_accuracy']:.2%})"
    )
    print(f"loss curves         differ by at most {result['gap']:.1e}")
    listed = ", ".join(f"#{i} ({result['norms'][i]:.1f})" for i in result["surprising"])
    print(f"most surprising     {listed} by gradient norm")
    if not result["gap"] <= AGREEMENT:
        sys.exit(f"the two loss curves differ by {result['gap']:.1e}, more than {AGREEMENT:.0e}")
    draw(options.out, test, result)
    print(f"picture             {options.out}")
    print(f"done in             {time.perf_counter() - began:.1f} s")
    return result


def _require(package: str) -> None:
    from importlib import import_module

    try:
        import_module(package)
    except ImportError as error:
        sys.exit(
            f"fx.examples.digits needs scikit-learn, matplotlib and tqdm ({error}); "
            f"install them with: pip install 'fxgrad[examples]'"
        )


if __name__ == "__main__":
    main()
