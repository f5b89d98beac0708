"""The real numbers: programs walked in balls; no framework is known by name."""
