"""The numbers at a witness: what went in, and what came out beside what is true."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Evidence, Number, Values, Witness

_MOST_SHOWN = 8
_FEW = 3  # numbers of an array that are told one by one
_TRUTH = {
    Evidence.CERTIFIED: "over the reals",
    Evidence.MULTIPRECISION: "over the reals",
    Evidence.FLOAT64: "in float64",
    Evidence.FINITE_DIFFERENCE: "by finite differences",
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table: whose number it is, in the framework's floats, and what it is by the evidence."""

    name: str
    floats: str
    real: str


def rows(witness: Witness) -> list[Row]:
    """Value, or rule and autodiff; nothing where a run died."""
    if witness.argument is None:
        known = witness.value_real is not None
        return [_row("value", witness.value, witness.value_real)] if known else []
    rule = [] if witness.custom is None else [_row("rule", witness.custom, witness.custom_real)]
    return [*rule, _row("autodiff", witness.auto, witness.truth)]


def by_evidence(evidence: Evidence | None) -> str:
    """What heads the column of what is true."""
    return _TRUTH[evidence or Evidence.CERTIFIED]


def where(witness: Witness) -> str:
    """`x = 100, y = [1, 2], cotangent 2, the gradient of y[1]`."""
    parts = [f"{i.path} = {values(i.value, i.recipe, i.shape)}" for i in witness.inputs]
    if witness.argument and witness.cotangent not in (1.0, None):
        parts.append(f"cotangent {values(witness.cotangent, None)}")
    if witness.argument and (witness.index or len(witness.inputs) > 1):
        index = f"[{', '.join(map(str, witness.index))}]" if witness.index else ""
        parts.append(f"the gradient of {witness.argument}{index}")
    return ", ".join(parts)


def values(value: Values | None, recipe: str | None, shape: Sequence[int] = ()) -> str:
    """A number, several, or how they were made; of many the first, or the few that differ from all others."""
    if value is None:
        return recipe or "?"
    if not isinstance(value, list):
        return _shown(value)
    if len(value) <= _MOST_SHOWN:
        return f"[{', '.join(map(_shown, value))}]"
    return _but_for_few(value, shape) or f"[{', '.join(map(_shown, value[:_MOST_SHOWN]))}, …]"


def _but_for_few(numbers: Sequence[Number], shape: Sequence[int]) -> str:
    """`all 0`, or `0 but [3, 0] = 1`; nothing where there is no number that nearly all are."""
    shown = list(map(_shown, numbers))
    ((common, _),) = Counter(shown).most_common(1)
    others = [place for place, text in enumerate(shown) if text != common]
    if not others:
        return f"all {common}"
    if len(others) > _FEW or math.prod(shape) != len(numbers):
        return ""
    said = (f"{_index(place, shape)} = {shown[place]}" for place in others)
    return f"{common} but {', '.join(said)}"


def _index(place: int, shape: Sequence[int]) -> str:
    """Where the number at a place of a flat list stands in an array: `[3, 0]`."""
    index: list[int] = []
    for size in reversed(shape):
        place, rest = divmod(place, size)
        index.append(rest)
    return f"[{', '.join(map(str, reversed(index)))}]"


def _row(name: str, floats: Number | None, real: str | None) -> Row:
    return Row(name, _shown(floats), real or "")


def _shown(value: Number | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else tidy(repr(value))
