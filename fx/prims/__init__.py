"""The primitives, a file a family; ``README.md`` walks through one."""
