"""The map of a sweep for the terminal: a picture of correct bits, and every stretch with its ends."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.sweep_map import Map, Stretch
from gradcheck_cli.inputs.floats import Format, format_of

_BLOCKS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"
_SAYS = {
    "nan": "NaN where the truth is finite",
    "infinite": "infinite where the truth is finite",
    "half": "fewer than half of the digits are right",
    "lost": "digits are lost",
    "zero": "exactly 0 where the truth is not",
    "tail": "digits are lost in a tail: next to nothing beside its neighbours",
    "outside": "outside the domain: nothing is asked there",
    "open": "undecided: the truth could not be enclosed",
    "subnormal": "not judged: below the smallest normal float, which may act as 0",
}
_MARKS = {"nan": "error", "infinite": "error", "half": "error", "lost": "warning", "zero": "note", "tail": "note"}  # fmt: skip
_MOST_LINES = 24  # for each result


def render_map(sweep: Map, width: int) -> str:
    """A map as `cgcheck sweep` shows it."""
    return "\n".join(_lines(sweep, width)) + "\n"


def _lines(sweep: Map, width: int) -> Iterator[str]:
    fmt = format_of(sweep.dtype)
    names = ", ".join(sweep.arguments)
    yield f"{sweep.path}:{sweep.line}  {sweep.gradient}({names})"
    one = len(sweep.arguments) == 1 and fmt.name != "float64"
    what = f"every {sweep.dtype}" if one else f"a grid over all {sweep.dtype} numbers"
    state = "" if sweep.complete else ", not finished: run it again to go on"
    yield f"{what}: {sweep.floats:,} points{state} · evidence: {sweep.evidence.value}"
    for k, name in enumerate(sweep.results):
        yield ""
        mine = [s for s in sweep.stretches if s.result == k]
        yield from _picture(sweep, k, name, fmt, width)
        if not any(s.kind in _MARKS for s in mine):
            yield "  right everywhere"
        yield from _table(mine, sweep.arguments, fmt)


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


def _table(stretches: Sequence[Stretch], names: Sequence[str], fmt: Format) -> Iterator[str]:
    """Grave ones first, if there are too many to show."""
    order = [*_MARKS, "open", "outside", "subnormal"]
    shown = sorted(stretches, key=lambda s: (order.index(s.kind), -s.count))[:_MOST_LINES]
    for stretch in sorted(shown, key=lambda s: s.first):
        mark = severity(stretch)
        label = f"{mark}[{stretch.kind}]" if mark else stretch.kind
        yield f"  {label}  {_where(stretch, names, fmt)}"
        worst = f", at worst {stretch.bits:g} bits{_at(stretch, names, fmt)}" if stretch.bits is not None else ""  # fmt: skip
        count = f"{stretch.count:,} point{'s' if stretch.count > 1 else ''}"
        yield from textwrap.wrap(f"{_SAYS[stretch.kind]}: {count}{worst}", 78, initial_indent="    ", subsequent_indent="    ")  # fmt: skip
    if len(stretches) > len(shown):
        yield f"  and {len(stretches) - len(shown)} more: --output-format json has them all"


def severity(stretch: Stretch) -> str | None:
    """How grave a stretch is; what exists only beyond all that models meet is a note."""
    mark = _MARKS.get(stretch.kind)
    return "note" if mark and not stretch.within else mark


def _where(stretch: Stretch, names: Sequence[str], fmt: Format) -> str:
    parts = []
    for name, first, last in zip(names, stretch.first, stretch.last, strict=True):
        low, high = _float(first, fmt), _float(last, fmt)
        parts.append(f"{name} = {low}" if low == high else f"{low} ≤ {name} ≤ {high}")
    return ", ".join(parts)


def _at(stretch: Stretch, names: Sequence[str], fmt: Format) -> str:
    if stretch.at is None:
        return ""
    return " at " + ", ".join(f"{n} = {_float(o, fmt)}" for n, o in zip(names, stretch.at, strict=True))  # fmt: skip


def _float(ordinal: int, fmt: Format) -> str:
    return fmt.show(float(fmt.from_ordinals([ordinal])[0]))
