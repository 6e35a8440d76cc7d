"""Control flow: ``cond``, ``switch``, ``while_loop``, ``fori_loop``, ``scan`` and what follows."""
