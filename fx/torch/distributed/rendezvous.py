"""``torch.distributed.rendezvous``: how ranks find each other."""

from fx.distributed.rendezvous import register_rendezvous_handler, rendezvous

__all__ = ["register_rendezvous_handler", "rendezvous"]
