"""``torch.distributed.elastic``: what scripts of ``torchrun`` ask of it."""
