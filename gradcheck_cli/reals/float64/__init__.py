"""Certified float64 under XLA: many points at once."""
