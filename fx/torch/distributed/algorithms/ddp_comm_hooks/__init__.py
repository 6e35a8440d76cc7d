"""``torch.distributed.algorithms.ddp_comm_hooks``: for ``register_comm_hook``."""
