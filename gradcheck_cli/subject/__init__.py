"""What a framework must offer, and how user code is called."""
