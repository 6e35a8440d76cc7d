"""``torch.distributed``: ``fx.distributed`` by the conventions of a script that writes.

A collective fills its tensors and gives nothing, or with ``async_op=True`` a ``Work``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from enum import Enum
from functools import wraps
from importlib import import_module
from typing import Any

from fx import distributed as _dist
from fx.distributed import coalescing as _coalescing
from fx.distributed import groups as _groups
from fx.distributed import mpi as _mpi
from fx.distributed.reductions import ReduceOp
from fx.distributed.rendezvous import register_rendezvous_handler as register_rendezvous_handler
from fx.distributed.rendezvous import rendezvous as rendezvous
from fx.distributed.work import Work
from fx.errors import ArgumentError
from fx.torch._absent import refusing

_SAME = """
    DistError DistBackendError DistNetworkError DistStoreError Store TCPStore FileStore HashStore
    PrefixStore ProcessGroup GroupMember group default_pg_timeout is_initialized new_group
    new_subgroups new_subgroups_by_enumeration split_group destroy_process_group get_rank
    get_world_size get_backend get_backend_config get_process_group_ranks get_global_rank
    get_group_rank get_pg_count get_node_local_rank init_process_group P2POp batch_isend_irecv
    DeviceMesh init_device_mesh"""
_COLLECTIVES = """
    all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter
    reduce_scatter_tensor all_to_all all_to_all_single barrier monitored_barrier
    all_reduce_coalesced all_gather_coalesced isend irecv send recv all_gather_object gather_object
    broadcast_object_list scatter_object_list send_object_list recv_object_list"""

_ROOMS = (
    "_composable", "algorithms", "autograd", "checkpoint", "collective_utils", "device_mesh",
    "elastic", "fsdp", "launcher", "nn", "optim", "pipelining", "rpc", "tensor", "utils",
)  # fmt: skip

globals().update({_name: getattr(_dist, _name) for _name in _SAME.split()})
_coalescing_manager = _coalescing.Coalesced
GroupName = str
default_pg_nccl_timeout = None  # as where PyTorch has no NCCL
reduce_op = ReduceOp  # its old name


def _of_face(function: Callable[..., Any]) -> Callable[..., Any]:
    """A collective that gives a work or nothing, and warns where this rank is not in the group."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            out = function(*args, **kwargs)
        except _groups.NotInGroup:
            warnings.warn(
                f"Running {function.__name__} on global rank {_dist.get_rank()} which does not "
                f"belong to the given group.",
                stacklevel=2,
            )
            return None
        return out if isinstance(out, Work | _coalescing.Coalesced | int) else None

    return called


globals().update({_name: _of_face(getattr(_dist, _name)) for _name in _COLLECTIVES.split()})
all_gather_single = _all_gather_base = globals()["all_gather_into_tensor"]
reduce_scatter_single = _reduce_scatter_base = globals()["reduce_scatter_tensor"]


class Backend(str):
    """The name of a backend, in small letters: ``Backend("GLOO") == "gloo"``."""

    UNDEFINED, GLOO, NCCL, MPI, UCC, XCCL, FAKE = (
        "undefined", "gloo", "nccl", "mpi", "ucc", "xccl", "fake",
    )  # fmt: skip
    backend_list = (UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE)

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        return name.lower()


class DebugLevel(Enum):
    """How much is compared between ranks."""

    OFF, INFO, DETAIL = range(3)


def set_debug_level(level: DebugLevel) -> None:
    """Let every collective be compared before anything moves, or not.

    Raises:
        ValueError: at ``INFO``, which says nothing here.
    """
    if level is DebugLevel.INFO:
        raise ArgumentError("set_debug_level: write DebugLevel.DETAIL or DebugLevel.OFF")
    os.environ["FX_DIST_DEBUG"] = "1" if level is DebugLevel.DETAIL else "0"


def set_debug_level_from_env() -> None:
    """``set_debug_level`` as ``TORCH_DISTRIBUTED_DEBUG`` says."""
    set_debug_level(DebugLevel[os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")])


def get_debug_level() -> DebugLevel:
    """DETAIL where ``FX_DIST_DEBUG=1`` lets each call remember its line."""
    told = os.environ.get("FX_DIST_DEBUG", "0")
    return DebugLevel.OFF if told in ("", "0") else DebugLevel.DETAIL


def is_available() -> bool:
    """Whether the packages of ``fxgrad[dist]`` are installed."""
    return _mpi.is_available()


def is_mpi_available() -> bool:
    """Whether the packages of ``fxgrad[dist]`` are installed."""
    return _mpi.is_available()


def is_gloo_available() -> bool:
    """As MPI, which it means."""
    return _mpi.is_available()


def is_backend_available(backend: str) -> bool:
    """Whether ``init_process_group`` takes it."""
    return backend.lower() in ("mpi", "gloo") and _mpi.is_available()


def is_nccl_available() -> bool:
    """False: no tensor is on a GPU."""
    return False


def is_ucc_available() -> bool:
    """False."""
    return False


def is_xccl_available() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher of PyTorch's kind started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Any) -> str:
    """``"gloo"``, of the CPU."""
    return "gloo"


def _get_default_group() -> Any:
    """The group of all ranks."""
    return _groups.world()


def _rank_not_in_group(group: Any) -> bool:
    """Whether this rank is outside of a group; None is all ranks."""
    return group is not None and _dist.get_rank(group) < 0


def _get_default_store() -> Any:
    """The store by which the ranks found each other.

    Raises:
        DistError: if they found each other without one, by their launcher.
    """
    store = _groups.world().store
    if store is None:
        raise _dist.DistError(
            "the ranks found each other by their launcher, without a store: make one with "
            "torch.distributed.TCPStore(host, port, world_size, is_master=rank == 0)"
        )
    return store


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Whether complex numbers can be reduced so."""
    return str(reduceOp) in ("RedOpType.SUM", "RedOpType.AVG", "RedOpType.PRODUCT") or (
        reduceOp.factor is not None
    )


_missing = refusing("distributed")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"{__name__}.{name}")
    if name == "GradBucket":
        from fx.nn.data_parallel import GradBucket

        return GradBucket
    return _missing(name)
