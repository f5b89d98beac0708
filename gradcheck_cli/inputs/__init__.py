"""Numbers, and what a call is made of."""
