"""The numbers at the witness: floats on the left, reals on the right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from gradcheck_cli.contract.report import Evidence, Finding
from gradcheck_cli.report.numbers import by_evidence, rows, where


def witness_lines(finding: Finding, width: int, evidence: Evidence | None) -> Iterator[str]:
    """Inputs, then value or gradient in the framework's floats and over the reals."""
    witness = finding.witness
    assert witness is not None
    yield from textwrap.wrap(
        where(witness), width, initial_indent="    at ", subsequent_indent="       ",
        break_on_hyphens=False,
    )  # fmt: skip
    numbers = rows(witness)
    if not numbers:
        return
    dtype = finding.dtypes[0] if finding.dtypes else "float"
    yield f"      {'':<9}{dtype:<17}{by_evidence(evidence)}"
    for row in numbers:
        yield f"      {row.name:<9}{row.floats:<17}{row.real}".rstrip()
