"""Datasets, samplers and loaders, with PyTorch's names and defaults."""

from fx.data.collate import default_collate, default_convert
from fx.data.dataset import (
    ConcatDataset,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    random_split,
)
from fx.data.loader import DataLoader, get_worker_info
from fx.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    *("ConcatDataset", "Dataset", "IterableDataset", "Subset", "TensorDataset", "random_split"),
    *("DataLoader", "default_collate", "default_convert", "get_worker_info"),
    *("BatchSampler", "RandomSampler", "Sampler", "SequentialSampler"),
    *("SubsetRandomSampler", "WeightedRandomSampler"),
]
