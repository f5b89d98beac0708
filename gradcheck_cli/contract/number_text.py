"""How numbers are written for people, everywhere."""

from __future__ import annotations


def tidy(text: str) -> str:
    """A decimal number without what says nothing: 100.0 → 100, 2.500 → 2.5, 1e+09 → 1e9."""
    mantissa, mark, exponent = text.partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}" if mark else mantissa
