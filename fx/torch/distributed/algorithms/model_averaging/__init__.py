"""``torch.distributed.algorithms.model_averaging``: means of parameters over ranks."""
