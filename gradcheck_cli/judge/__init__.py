"""From measurements to findings."""
