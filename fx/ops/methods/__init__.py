"""What a Tensor can do by itself: operators, methods, attributes, printing."""
