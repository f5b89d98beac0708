"""Every float of one argument, or a grid of several: what is true there, and what the rule gives."""
