"""Ranges of the numbers in an array, as far as the text shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_INF = math.inf


@dataclass(frozen=True, slots=True)
class Range:
    """An interval. `is_plain`: it is that of a generator's defaults, and nobody asked for it."""

    low: float = -_INF
    high: float = _INF
    low_open: bool = False
    high_open: bool = False
    is_plain: bool = False

    @property
    def text(self) -> str:
        """The domain as a comment has it; nothing where plain data may be meant.

        Numbers on both sides of zero that reach 1 are plain data, whoever drew them.
        """
        low, high = _written(self.low), _written(self.high)
        if self.is_plain or low == high:
            return ""
        if math.isinf(self.low):
            return "" if self.high > 0 else f"{'<' if self.high_open else '<='} {high}"
        if math.isinf(self.high):
            return "" if self.low < 0 else f"{'>' if self.low_open else '>='} {low}"
        if self.low < 0 < self.high and max(-self.low, self.high) >= 1:
            return ""
        return f"in {'(' if self.low_open else '['}{low}, {high}{')' if self.high_open else ']'}"

    def scaled(self, factor: float) -> Range:
        """The range of the numbers times a factor."""
        if factor == 0 or not math.isfinite(factor):
            return ANYWHERE
        ends = self.low * factor, self.high * factor
        if factor > 0:
            return replace(self, low=ends[0], high=ends[1])
        return Range(ends[1], ends[0], self.high_open, self.low_open, self.is_plain)

    def shifted(self, by: float) -> Range:
        """The range of the numbers plus a constant."""
        if not math.isfinite(by):
            return ANYWHERE
        plain = self.is_plain and by == 0
        return replace(self, low=self.low + by, high=self.high + by, is_plain=plain)

    def plus(self, other: Range) -> Range:
        """The range of sums, where both are not negative."""
        if self.low < 0 or other.low < 0:
            return ANYWHERE
        low_open = self.low_open or other.low_open
        return Range(self.low + other.low, _INF, low_open, is_plain=self.is_plain or other.is_plain)

    def times(self, other: Range) -> Range:
        """The range of products, where both are not negative."""
        if self.low < 0 or other.low < 0:
            return ANYWHERE
        low_open = self._above(0) and other._above(0) and (self.low_open or other.low_open)
        plain = self.is_plain or other.is_plain
        return Range(self.low * other.low, _INF, low_open, is_plain=plain)

    def _above(self, number: float) -> bool:
        return self.low > number or (self.low == number and self.low_open)

    def without_sign(self) -> Range:
        """The range of absolute values."""
        return self if self.low >= 0 else NOT_NEGATIVE


def _written(number: float) -> str:
    return f"{number + 0.0:.6g}"  # no minus before a zero


ANYWHERE = Range()
POSITIVE = Range(low=0.0, low_open=True)
NOT_NEGATIVE = Range(low=0.0)
OPEN_UNIT = Range(0.0, 1.0, low_open=True, high_open=True)
DRAWN = Range(0.0, 1.0, high_open=True, is_plain=True)  # `rand()`
