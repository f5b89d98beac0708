"""Pictures of correct bits, as SVG."""
