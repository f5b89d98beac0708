"""Certified arithmetic in float64 by numpy: many points at once, and nothing to compile."""
