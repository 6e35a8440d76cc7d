"""Datasets, samplers and loaders, with PyTorch's names and defaults."""

from fx.data import datasets, transforms
from fx.data._utils.collate import default_collate, default_convert
from fx.data._utils.worker import get_worker_info
from fx.data.dataloader import DataLoader, _DatasetKind
from fx.data.datapipes import (
    DataChunk,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
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
from fx.ops.operands import offered as _offered

__all__ = _offered(globals(), "_DatasetKind", "datasets", "transforms")
