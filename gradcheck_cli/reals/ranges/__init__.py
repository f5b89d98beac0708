"""The range of a program over a wide stretch of its argument."""
