"""``torch.distributed.elastic.multiprocessing``: how errors reach the launcher."""

from typing import Any

from fx.torch.distributed.elastic.multiprocessing.errors import ChildFailedError as ChildFailedError
from fx.torch.distributed.elastic.multiprocessing.errors import ProcessFailure as ProcessFailure
from fx.torch.distributed.elastic.multiprocessing.errors import record as record


def __getattr__(name: str) -> Any:
    if name in ("start_processes", "PContext", "Std", "LogsSpecs", "DefaultLogsSpecs"):
        raise AttributeError(
            f"fx has no torch.distributed.elastic.multiprocessing.{name}: write "
            f"torch.multiprocessing.start_processes, or python -m fx.run --redirects"
        )
    raise AttributeError(
        f"module 'torch.distributed.elastic.multiprocessing' has no attribute {name!r}"
    )
