"""Correct bits over one argument, on one line."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Number, Profile

_BLOCKS = "▁▂▃▄▅▆▇█"
_MOST_CELLS = 48


def plot_lines(profile: Profile, width: int) -> Iterator[str]:
    """One cell for a few neighbouring points, as high as the worst of them."""
    count = len(profile.bits)
    if count < 2:
        return
    cells = min(_MOST_CELLS, count, width - 30)
    heights = []
    for i in range(cells):
        part = profile.bits[i * count // cells : (i + 1) * count // cells]
        heights.append(min(part))
    bar = "".join(_BLOCKS[round(h / profile.full * (len(_BLOCKS) - 1))] for h in heights)
    left, right = _short(profile.at[0]), _short(profile.at[-1])
    yield f"    bits  {profile.argument} = {left} {bar} {right}"


def _short(value: Number) -> str:
    return tidy(f"{value:.0e}") if isinstance(value, float) else value
