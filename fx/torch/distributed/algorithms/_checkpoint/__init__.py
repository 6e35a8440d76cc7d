"""``torch.distributed.algorithms._checkpoint``: modules whose values are computed again."""
