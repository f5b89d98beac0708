"""The numbers at the witness: floats on the left, reals on the right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Evidence, Finding, Number, Values, Witness

_MOST_SHOWN = 8
_TRUTH = {
    Evidence.CERTIFIED: "over the reals",
    Evidence.MULTIPRECISION: "over the reals",
    Evidence.FLOAT64: "in float64",
    Evidence.FINITE_DIFFERENCE: "by finite differences",
}


def witness_lines(finding: Finding, width: int, evidence: Evidence | None) -> Iterator[str]:
    """Inputs, then value or gradient in the framework's floats and over the reals."""
    witness = finding.witness
    assert witness is not None
    yield from textwrap.wrap(
        _where(witness), width, initial_indent="    at ", subsequent_indent="       ",
        break_on_hyphens=False,
    )  # fmt: skip
    if witness.argument is None and witness.value_real is None:
        return  # a death: there are no numbers
    dtype = finding.dtypes[0] if finding.dtypes else "float"
    rows = _gradient_rows(witness) if witness.argument else _value_rows(witness)
    yield f"      {'':<9}{dtype:<17}{_TRUTH[evidence or Evidence.CERTIFIED]}"
    for name, left, right in rows:
        yield f"      {name:<9}{_show(left):<17}{right if right is not None else ''}".rstrip()


def _value_rows(witness: Witness) -> list[tuple[str, Number | None, str | None]]:
    return [("value", witness.value, witness.value_real)]


def _gradient_rows(witness: Witness) -> list[tuple[str, Number | None, str | None]]:
    rows: list[tuple[str, Number | None, str | None]] = []
    if witness.custom is not None:
        rows.append(("rule", witness.custom, witness.custom_real))
    rows.append(("autodiff", witness.auto, witness.truth))
    return rows


def _where(witness: Witness) -> str:
    parts = [f"{item.path} = {_values(item.value, item.recipe)}" for item in witness.inputs]
    if witness.argument and witness.cotangent not in (1.0, None):
        parts.append(f"cotangent {_values(witness.cotangent, None)}")
    if witness.argument and (witness.index or len(witness.inputs) > 1):
        index = f"[{', '.join(map(str, witness.index))}]" if witness.index else ""
        parts.append(f"the gradient of {witness.argument}{index}")
    return ", ".join(parts)


def _values(value: Values | None, recipe: str | None) -> str:
    if value is None:
        return recipe or "?"
    if isinstance(value, list):
        shown = ", ".join(_show(v) for v in value[:_MOST_SHOWN])
        return f"[{shown}{', …' if len(value) > _MOST_SHOWN else ''}]"
    return _show(value)


def _show(value: Number | None) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else tidy(repr(value))
