"""The map of a sweep for the terminal: a picture of correct bits, and every stretch with its ends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.sweep_map import Map, Stretch
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.report.stretches import about, gravest, is_faultless, label, says, where

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_MOST_LINES = 24  # for each result


def render_map(sweep: Map, width: int) -> str:
    """A map as `cgcheck sweep` shows it."""
    return "\n".join(_lines(sweep, width)) + "\n"


def _lines(sweep: Map, width: int) -> Iterator[str]:
    fmt = format_of(sweep.dtype)
    names = ", ".join(sweep.arguments)
    yield f"{sweep.path}:{sweep.line}  {sweep.gradient}({names})"
    yield about(sweep)
    for k, name in enumerate(sweep.results):
        yield ""
        mine = [s for s in sweep.stretches if s.result == k]
        yield from _picture(sweep, k, name, fmt, width)
        if is_faultless(mine):
            yield "  right everywhere"
        yield from _table(mine, sweep)


def _picture(sweep: Map, result: int, name: str, fmt: Format, width: int) -> Iterator[str]:
    """The least correct bits along the ordinals of the first argument."""
    values = sweep.levels[result]
    cells = min(width - 4, 64, len(values))
    if len(sweep.arguments) > 1 or cells < 8:
        yield f"{name}"
        return
    bar = ""
    for i in range(cells):
        part = [v for v in values[i * len(values) // cells : (i + 1) * len(values) // cells] if v >= 0]  # fmt: skip
        bar += _NOTHING if not part else _BLOCKS[round(min(part) / fmt.digits * (len(_BLOCKS) - 1))]
    ends = f"{-fmt.max:.1e}", "0", f"{fmt.max:.1e}"
    yield f"{name}: correct bits over all {sweep.arguments[0]}"
    yield f"  {bar}"
    yield f"  {ends[0]}{ends[1]:^{max(1, cells - len(ends[0]) - len(ends[2]))}}{ends[2]}"


def _table(stretches: Sequence[Stretch], sweep: Map) -> Iterator[str]:
    """Grave ones first, if there are too many to show."""
    shown = gravest(stretches, _MOST_LINES)
    for stretch in shown:
        yield f"  {label(stretch)}  {where(stretch, sweep)}"
        text = says(stretch, sweep)
        yield from textwrap.wrap(text, 78, initial_indent="    ", subsequent_indent="    ")
    if len(stretches) > len(shown):
        yield f"  and {len(stretches) - len(shown)} more: --output-format json has them all"
