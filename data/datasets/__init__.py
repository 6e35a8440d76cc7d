"""Datasets read from files that are on disk: nothing is ever downloaded."""

from fx.data.datasets.bundled import bundled
from fx.data.datasets.cifar import CIFAR10, CIFAR100
from fx.data.datasets.folder import DatasetFolder, ImageFolder
from fx.data.datasets.mnist import KMNIST, MNIST, FashionMNIST, read_idx
from fx.ops.operands import offered as _offered

__all__ = _offered(globals())
