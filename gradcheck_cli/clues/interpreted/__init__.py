"""Source text interpreted, never executed: what its expressions make, as shapes, kinds and domains."""
