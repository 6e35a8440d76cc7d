"""Making tensors: creation functions, patterns, and memory of other libraries."""
