"""A signed logarithmic axis: powers of ten to both sides of a zero that has a place of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.number_text import tidy

_ROOM = 46.0  # between two labels
_NEAREST = 1e-9  # what is smaller lies at zero
_FARTHEST = 1e300
_ROUND = (1, 2, 3, 5, 10, 20, 50, 100)  # decades from one label to the next


@dataclass(frozen=True, slots=True)
class Axis:
    """From numbers to places between `left` and `right`; below `near` it is linear."""

    low: float
    high: float
    near: float
    left: float
    right: float

    @staticmethod
    def over(values: Sequence[float], left: float, right: float) -> Axis:
        """The axis on which all these numbers have a place."""
        sizes = [abs(v) for v in values if abs(v) >= _NEAREST and math.isfinite(v)]
        near = 10.0 ** math.floor(math.log10(min(sizes, default=1.0)))
        ends = [max(-_FARTHEST, min(v, _FARTHEST)) for v in values]
        return Axis(min(ends), max(ends), near, left, right)

    def place(self, value: float) -> float:
        """Where a number is; what lies outside is at the end."""
        start, stop = self.steps(self.low), self.steps(self.high)
        share = 0.5 if stop == start else (self.steps(value) - start) / (stop - start)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def steps(self, value: float) -> float:
        """How many decades a number is away from zero, with its sign; the first one holds all that is near."""
        size = min(abs(value), _FARTHEST) / self.near
        return math.copysign(size if size <= 1 else 1 + math.log10(size), value)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Numbers with their labels, as close as there is room for."""
        decades = self.steps(self.high) - self.steps(self.low)
        apart = decades * _ROOM / max(self.right - self.left, 1.0)
        every = next((n for n in _ROUND if n >= apart), _ROUND[-1])
        if self.low <= 0 <= self.high:
            yield 0.0, "0"
        first = round(math.log10(self.near))
        last = math.ceil(math.log10(max(abs(self.low), abs(self.high), self.near)))
        for power in range(first, last + 1):
            if power % every == 0 and not (every > 1 and power == first):
                for value in (-(10.0**power), 10.0**power):
                    if self.low <= value <= self.high:
                        yield value, label(value)


def label(value: float) -> str:
    """A power of ten in few letters."""
    return tidy(f"{value:g}")
