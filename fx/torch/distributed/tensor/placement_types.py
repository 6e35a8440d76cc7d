"""``torch.distributed.tensor.placement_types``: where parts lie."""

from fx.distributed.placements import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
