"""Names of ``torch.distributed`` that fx does not have: a kind or none for each, and a word why.

The patterns are of whole names below ``torch``, so that a room is told in one line.
"""

from __future__ import annotations

_PLANS = "fx plans itself; leave out planner, or write DefaultSavePlanner(), DefaultLoadPlanner()"
_FOLDERS = "a checkpoint is a folder; write checkpoint_id=folder, or FileSystemReader(folder)"
_HELD = "FileSystemReader(folder).read_metadata().entries has names, shapes and dtypes"
_SAFE = "fx.io.save and fx.io.load have files of safetensors"
_RAISES = "load and save raise what went wrong: FileNotFoundError, ValueError, DistError"
_LAUNCH = "write python -m fx.run, or torch.distributed.launcher.api.elastic_launch"
_WHOLE = "write fully_shard on the modules, or a mesh of two axes"
_HOOK = "write register_comm_hook with a hook of default_hooks or powerSGD_hook"
_MEANS = "collectives are functions of torch.distributed; their options are arguments"

KINDS: tuple[tuple[str, str | None, str], ...] = (
    # torch.distributed
    (r"^\w*Options$|^(distributed_c10d\.)?(\w+Options|BackendConfig|Reducer|Logger|record_comm"
     r"|BuiltinCommHookType|ProcessGroupGloo)$", "internal", _MEANS),
    (r"(^|\.)shrink_group$", "device",
     "no group survives the death of a rank; --max-restarts starts all again"),
    (r"^breakpoint$", None, "ranks read no terminal; print, or run the script alone"),
    (r"^QueueEmptyError$", None, "a store has no queues; write store.wait and store.get"),
    (r"^(argparse_util|run|launch)\.", None, _LAUNCH),
    (r"^(config|debug|c10d_logger|logging_handlers|remote_device|constants)\b", "internal",
     "it is set by FX_DIST_DEBUG, or not at all"),
    (r"^_composable\.(contract\b|replicate\.unimplemented_deepcopy)", "internal",
     "it serves PyTorch's own functions"),
    (r"^_composable\.replicate_with_fsdp\.", None, "write torch.distributed._composable.replicate"),
    (r"^_functional_collectives\.\w*(_backward|_setup_context|_inplace|legacy_\w+|_ctx|backend_impl)$"
     r"|^_functional_collectives\.(legacy_\w+|backend_impl|AsyncCollectiveTensor|DeviceMesh)$",
     "internal", "results are complete when they are given; write torch.distributed's functions"),
    # algorithms
    (r"^algorithms\..*quantiz", "quantised", f"there are no quantised tensors; {_HOOK}"),
    (r"^algorithms\..*(optimizer_overlap|hook_with_zero_step)", None, _HOOK),
    (r"^algorithms\..*(ActivationWrapper|OffloadWrapper|offload_wrapper)$", "device",
     "values lie on the CPU anyway; write checkpoint_wrapper"),
    # checkpoint
    (r"^checkpoint\..*HuggingFace", None, _SAFE),
    (r"^checkpoint\.(\w+\.)?CheckpointException$", None, _RAISES),
    (r"^checkpoint\.(\w+\.)?(StorageReader|StorageWriter|WriteResult|FileSystem|FileSystemBase"
     r"|SerializationFormat|BroadcastingTorchSaveReader|StorageMeta)$", None, _FOLDERS),
    (r"^checkpoint\.(\w+\.)?\w*Metadata\w*$|^checkpoint\.metadata\.", None, _HELD),
    (r"^checkpoint\..*(Stag|AsyncCheckpointerType|AsyncSaveResponse)", None,
     "async_save copies the state before it comes back; leave out async_stager"),
    (r"^checkpoint\.(utils|planner_helpers|logger|logging_handlers)\.", "internal",
     "it serves PyTorch's own code"),
    (r"^checkpoint\.", None, _PLANS),
    # elastic
    (r"^elastic\.(agent|control_plane|events|metrics|timer|rendezvous)\b", "internal",
     f"it is a part of PyTorch's launcher; {_LAUNCH}"),
    (r"^elastic\.multiprocessing\.", None,
     "write torch.multiprocessing.start_processes, or python -m fx.run --redirects"),
    (r"^elastic\.utils\b", "internal", "it serves PyTorch's launcher"),
    # the others
    (r"^fsdp\.", "device", "parts lie on the CPU, in one way"),
    (r"^nn\.", "internal", "it serves PyTorch's own code"),
    (r"^optim\.", "internal", "write the optimizer's class; steps compile under jit"),
    (r"^pipelining\..*ScheduleDualPipeV$", None, "write ScheduleZBVZeroBubble: it has its stages"),
    (r"^rpc\.", "internal", "write init_rpc; there is one way to carry calls"),
    (r"^tensor\.debug\.visualize_sharding$", None, "print x.placements and x.to_local().shape"),
    (r"^tensor\.experimental\.register_sharding$", None,
     "every operation has its rule; write local_map for a function of parts"),
    (r"^tensor\.experimental\._attention\.", "internal", "write context_parallel"),
    (r"^tensor\.parallel\.(fsdp|ddp)\b", "internal", _WHOLE),
    (r"^tensor\.parallel\.input_reshard\b", None, "write torch.utils.checkpoint"),
)  # fmt: skip

# packages whose names may be imported, and refuse when they are called
ROOMS = {
    "elastic.agent.server": """
        ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec WorkerState""",
    "elastic.agent.server.api": """
        ElasticAgent RunResult SimpleElasticAgent Worker WorkerGroup WorkerSpec WorkerState""",
    "elastic.agent.server.local_elastic_agent": "LocalElasticAgent",
    "elastic.events": "Event EventSource NodeState RdzvEvent get_logging_handler record",
    "elastic.metrics": """
        ConsoleMetricHandler MetricData MetricHandler MetricsConfig NullMetricHandler configure
        getStream prof profile publish_metric put_metric""",
    "elastic.rendezvous": """
        RendezvousHandler RendezvousHandlerRegistry RendezvousParameters
        rendezvous_handler_registry""",
    "elastic.rendezvous.registry": "get_rendezvous_handler",
    "elastic.timer": """
        FileTimerClient FileTimerServer LocalTimerClient LocalTimerServer TimerClient TimerServer
        configure expires""",
}
