"""Several processes that compute together: groups of ranks, their store and their collectives.

The functions have PyTorch's names (``torch.distributed``) and give results; ``README.md`` says how
a collective works. Nothing of it is loaded before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "fx.distributed.errors": "DistError DistBackendError DistNetworkError DistStoreError",
    "fx.distributed.store": "Store TCPStore FileStore HashStore PrefixStore",
    "fx.distributed.reductions": "ReduceOp",
    "fx.distributed.work": "Work Future",
    "fx.distributed.groups": """
        ProcessGroup GroupMember group default_pg_timeout is_initialized new_group new_subgroups
        new_subgroups_by_enumeration split_group destroy_process_group get_rank get_world_size
        get_backend get_backend_config get_process_group_ranks get_global_rank get_group_rank
        get_pg_count get_node_local_rank""",
    "fx.distributed.rendezvous": "init_process_group",
    "fx.distributed.collectives": """
        all_reduce reduce broadcast all_gather all_gather_into_tensor gather scatter reduce_scatter
        reduce_scatter_tensor all_to_all all_to_all_single barrier monitored_barrier""",
    "fx.distributed.coalescing": "Coalesced all_reduce_coalesced all_gather_coalesced",
    "fx.distributed.messages": """
        isend irecv send recv P2POp batch_isend_irecv all_gather_object gather_object
        broadcast_object_list scatter_object_list send_object_list recv_object_list""",
    "fx.distributed.mesh": "Mesh P PartitionSpec",
    "fx.distributed.sharded": "shard_map",
    "fx.distributed.constraints": "NamedSharding with_sharding_constraint",
    "fx.distributed.placements": "Placement Shard Replicate Partial",
    "fx.distributed.device_mesh": "DeviceMesh init_device_mesh",
    "fx.distributed.implicit": "implicit_replication",
    "fx.distributed.uneven": "Join Joinable JoinHook",
    "fx.distributed.tensor": "DTensor",
    "fx.distributed.distributing": "distribute_tensor distribute_module",
    "fx.distributed.local_mapping": "local_map",
    "fx.distributed.ring": "ring_attention",
    "fx.distributed.experts": "mixture_of_experts",
    "fx.distributed.simulator": "simulate",
    "fx.distributed.planning": "plan",
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'fx.distributed' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_LAZY)
