"""``torch.distributed.fsdp.sharded_grad_scaler``: scales are the same in all ranks anyway."""

from fx.amp import GradScaler as ShardedGradScaler

__all__ = ["ShardedGradScaler"]
