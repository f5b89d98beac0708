"""Source text: what a function's statements say of its parameters, read without running them."""
