"""``torch.distributed.launcher``: ranks that a program starts."""

from fx.torch.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
