"""The numbers at a witness: what went in, and what came out beside what is true."""

from __future__ import annotations

from dataclasses import dataclass

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Evidence, Number, Values, Witness

_MOST_SHOWN = 8
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
    parts = [f"{item.path} = {values(item.value, item.recipe)}" for item in witness.inputs]
    if witness.argument and witness.cotangent not in (1.0, None):
        parts.append(f"cotangent {values(witness.cotangent, None)}")
    if witness.argument and (witness.index or len(witness.inputs) > 1):
        index = f"[{', '.join(map(str, witness.index))}]" if witness.index else ""
        parts.append(f"the gradient of {witness.argument}{index}")
    return ", ".join(parts)


def values(value: Values | None, recipe: str | None) -> str:
    """A number, the first of several, or how they were made."""
    if value is None:
        return recipe or "?"
    if isinstance(value, list):
        few = ", ".join(_shown(v) for v in value[:_MOST_SHOWN])
        return f"[{few}{', …' if len(value) > _MOST_SHOWN else ''}]"
    return _shown(value)


def _row(name: str, floats: Number | None, real: str | None) -> Row:
    return Row(name, _shown(floats), real or "")


def _shown(value: Number | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else tidy(repr(value))
