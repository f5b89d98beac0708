"""The stretches of a sweep in words: how grave one is, where it lies, and what is the matter there."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.contract.sweep_map import Map, Stretch
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.report.closing import count

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
_ORDER = [*_MARKS, "open", "outside", "subnormal"]


def severity(stretch: Stretch) -> str | None:
    """How grave a stretch is; what exists only beyond all that models meet is a note."""
    mark = _MARKS.get(stretch.kind)
    return "note" if mark and not stretch.within else mark


def label(stretch: Stretch) -> str:
    """`error[nan]`, or the kind alone where it is no fault."""
    mark = severity(stretch)
    return f"{mark}[{stretch.kind}]" if mark else stretch.kind


def is_faultless(stretches: Sequence[Stretch]) -> bool:
    """Is the result right wherever it was judged?"""
    return not any(stretch.kind in _MARKS for stretch in stretches)


def gravest(stretches: Sequence[Stretch], most: int) -> list[Stretch]:
    """So many at most, the grave ones first to be kept, in order of their floats."""
    kept = sorted(stretches, key=lambda s: (_ORDER.index(s.kind), -s.count))[:most]
    return sorted(kept, key=lambda s: s.first)


def about(sweep: Map) -> str:
    """`every float32: 4,278,190,081 points · evidence: certified`."""
    one = len(sweep.arguments) == 1 and sweep.dtype != "float64"
    what = f"every {sweep.dtype}" if one else f"a grid over all {sweep.dtype} numbers"
    state = "" if sweep.complete else ", not finished: run it again to go on"
    return f"{what}: {sweep.floats:,} points{state} · evidence: {sweep.evidence.value}"


def where(stretch: Stretch, sweep: Map) -> str:
    """`88.72284 ≤ x ≤ 3.4028235e38`; of several arguments a point, for a box around all says little."""
    if len(sweep.arguments) > 1 and stretch.at is not None:
        return _point(stretch.at, sweep)
    fmt = format_of(sweep.dtype)
    parts = []
    for name, first, last in zip(sweep.arguments, stretch.first, stretch.last, strict=True):
        low, high = _float(first, fmt), _float(last, fmt)
        parts.append(f"{name} = {low}" if low == high else f"{low} ≤ {name} ≤ {high}")
    return ", ".join(parts)


def says(stretch: Stretch, sweep: Map) -> str:
    """What is the matter, at how many points, and how bad it is at the worst of them."""
    worst, several = "", len(sweep.arguments) > 1
    if stretch.bits is not None:
        at = "" if several or stretch.at is None else f" at {_point(stretch.at, sweep)}"
        worst = f", at worst {stretch.bits:g} bits{at}"
    number = f"{stretch.count:,} {count(stretch.count, 'point').rpartition(' ')[2]}"
    if several:
        number = f"{stretch.count:,} of {count(sweep.floats, 'point')}"
    return f"{_SAYS[stretch.kind]}: {number}{worst}"


def _point(at: Sequence[int], sweep: Map) -> str:
    fmt = format_of(sweep.dtype)
    places = zip(sweep.arguments, at, strict=True)
    return ", ".join(f"{name} = {_float(ordinal, fmt)}" for name, ordinal in places)


def _float(ordinal: int, fmt: Format) -> str:
    return fmt.show(float(fmt.from_ordinals([ordinal])[0]))
