"""Ranges of the numbers in an array, as far as the text shows them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_INF = math.inf
_LEAST_PART = 4  # of the lower end, where there is room below it
_ENDS = (1.0, math.pi / 2, math.pi, 2 * math.pi, 90.0, 180.0, 360.0)  # of shares and of angles


@dataclass(frozen=True, slots=True)
class Range:
    """An interval. `is_plain`: it is that of a generator's defaults, and nobody asked for it.

    `is_drawn`: it is where an example draws its numbers, and others of that size are meant as well.
    """

    low: float = -_INF
    high: float = _INF
    low_open: bool = False
    high_open: bool = False
    is_plain: bool = False
    is_drawn: bool = False

    @property
    def text(self) -> str:
        """The domain as a comment has it; nothing where plain data may be meant.

        Numbers on both sides of zero that reach 1 are plain data, whoever drew them.
        """
        if self.is_drawn:
            return self._around().text
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

    def _around(self) -> Range:
        """The interval and as much again on both sides, on the same side of zero and of the end that angles and shares have."""
        low, high = self.low, self.high
        if low < 0 < high or low == high:
            return replace(self, is_drawn=False)
        if high <= 0:
            return replace(self, is_drawn=False).scaled(-1)._around().scaled(-1)
        width = high - low
        far = min((end for end in _ENDS if high <= end < 2 * high), default=_INF)
        is_open = self.high_open or high < far <= high + width
        nearer = max(low - width, low / _LEAST_PART)
        return Range(nearer, min(high + width, far), self.low_open, is_open, self.is_plain)

    def scaled(self, factor: float) -> Range:
        """The range of the numbers times a factor."""
        if factor == 0 or not math.isfinite(factor):
            return ANYWHERE
        ends = self.low * factor, self.high * factor
        if factor > 0:
            return replace(self, low=ends[0], high=ends[1])
        return Range(ends[1], ends[0], self.high_open, self.low_open, self.is_plain, self.is_drawn)

    def shifted(self, by: float) -> Range:
        """The range of the numbers plus a constant."""
        if not math.isfinite(by):
            return ANYWHERE
        plain, drawn = self.is_plain and by == 0, self.is_drawn or (self.is_plain and by != 0)
        return replace(self, low=self.low + by, high=self.high + by, is_plain=plain, is_drawn=drawn)

    def plus(self, other: Range) -> Range:
        """The range of sums, where both are not negative."""
        if self.low < 0 or other.low < 0:
            return ANYWHERE
        low_open = self.low_open or other.low_open
        plain, drawn = self.is_plain or other.is_plain, self.is_drawn or other.is_drawn
        return Range(self.low + other.low, _INF, low_open, is_plain=plain, is_drawn=drawn)

    def times(self, other: Range) -> Range:
        """The range of products, where both are not negative."""
        if self.low < 0 or other.low < 0:
            return ANYWHERE
        low_open = self._above(0) and other._above(0) and (self.low_open or other.low_open)
        plain, drawn = self.is_plain or other.is_plain, self.is_drawn or other.is_drawn
        return Range(self.low * other.low, _INF, low_open, is_plain=plain, is_drawn=drawn)

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
