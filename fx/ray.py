"""``fx.ray``: ranks that are actors of Ray, by the names of ``ray.train``.

``fx/distributed/actors/README.md`` says how they find each other, die and start again.
"""

from fx.distributed.actors.configs import (
    FailureConfig,
    Result,
    RunConfig,
    ScalingConfig,
    TrainingFailedError,
)
from fx.distributed.actors.rank import Context, get_checkpoint, get_context, report
from fx.distributed.actors.strategy import prepare_model
from fx.distributed.actors.trainer import Trainer

__all__ = [
    "Context", "FailureConfig", "Result", "RunConfig", "ScalingConfig", "Trainer",
    "TrainingFailedError", "get_checkpoint", "get_context", "prepare_model", "report",
]  # fmt: skip
