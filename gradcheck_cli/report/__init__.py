"""A report as text or bytes: one file or folder a format."""
