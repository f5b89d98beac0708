"""A rule as its user wrote it: its functions read, run with other text in their place, and found again in their file."""
