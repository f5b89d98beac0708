"""Correct bits over one argument, on one line, and what stands where below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Number, Profile

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_CELLS = 48
_NAMES = 30  # columns beside the bar
_WHOLE, _LARGE = 10, 10_000  # between them no digit after the point is told, and no exponent


def plot_lines(profile: Profile, width: int) -> Iterator[str]:
    """One cell for a few neighbouring points, as high as the worst of them; below, 0 and where bits begin or cease to be lost."""
    count = len(profile.bits)
    if count < 2:
        return
    cells = max(1, min(_MOST_CELLS, count, width - _NAMES))
    bounds = [i * count // cells for i in range(cells + 1)]
    heights = [min(profile.bits[a:b]) for a, b in pairwise(bounds)]
    bar = "".join(_BLOCKS[round(h / profile.full * (len(_BLOCKS) - 1))] for h in heights)
    left, right = _power(profile.at[0]), _power(profile.at[-1])
    before = f"    bits  {profile.argument} = {left} "
    yield f"{before}{bar} {right}"
    ticks = _ticks(profile, bounds)
    if ticks:
        yield (" " * len(before) + ticks).rstrip()


def _ticks(profile: Profile, bounds: Sequence[int]) -> str:
    """Numbers below the cells where they stand, as many as there is room for: 0 first, then edges of what is lost."""
    line = [" "] * (len(bounds) - 1)
    for cell, text in (*_zero(profile, bounds), *_edges(profile, bounds)):
        begin = min(max(0, cell - len(text) // 2), len(line) - len(text))
        there = line[max(0, begin - 1) : begin + len(text) + 1]
        if begin >= 0 and set(there) == {" "}:
            line[begin : begin + len(text)] = text
    return "".join(line).rstrip()


def _zero(profile: Profile, bounds: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The cell with the point 0, if it is no end of the bar."""
    inner = profile.at[1:-1]
    if 0 in inner:
        yield _cell(inner.index(0) + 1, bounds), "0"


def _edges(profile: Profile, bounds: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The first and the last point of each stretch that has lost half of its bits, but for the ends of the bar."""
    lost = [bits < profile.full / 2 for bits in profile.bits]
    told = ""
    for place, here in enumerate(lost):
        outside = (lost[i] for i in (place - 1, place + 1) if 0 <= i < len(lost))
        if here and not all(outside) and (text := _short(profile.at[place])) != told:
            told = text
            yield _cell(place, bounds), text


def _cell(place: int, bounds: Sequence[int]) -> int:
    return max(cell for cell, begin in enumerate(bounds[:-1]) if begin <= place)


def _power(value: Number) -> str:
    return tidy(f"{value:.0e}") if isinstance(value, float) else value


def _short(value: Number) -> str:
    if not isinstance(value, float):
        return value
    return tidy(f"{value:.0f}" if _WHOLE <= abs(value) < _LARGE else f"{value:.2g}")
