"""Balls of flint: the number domain of the truth."""
