"""``torch.distributed.algorithms``: other ways to send gradients, and means of models."""
