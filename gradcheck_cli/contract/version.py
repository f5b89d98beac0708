"""The version of cgcheck, which every room may know; the build reads it from here."""

__version__ = "0.1.0"
