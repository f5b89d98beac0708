"""cgcheck: is your custom gradient right, where does it break, and what to write instead."""

__version__ = "0.1.0"
