"""Datasets, samplers and loaders, with PyTorch's names and defaults."""

from fx.data import datasets, transforms
from fx.data._utils.collate import default_collate, default_convert
from fx.data._utils.worker import get_worker_info
from fx.data.dataloader import DataLoader
from fx.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from fx.data.distributed import DistributedSampler
from fx.data.errors import DataFileError, MissingFileError, WorkerError
from fx.data.loading.packing import PackedList
from fx.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataFileError",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "MissingFileError",
    "PackedList",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerError",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
