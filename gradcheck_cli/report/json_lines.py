"""JSON, one object a line: the gradients, the findings, what was not covered, and the summary at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gradcheck_cli.contract.report import Report
from gradcheck_cli.report.json_text import in_one_line
from gradcheck_cli.report.look import Look


def render(report: Report, look: Look) -> str:
    """Each line says by `type` what it is; its other fields are those of the JSON report."""
    return "".join(map(in_one_line, _items(report)))


def _items(report: Report) -> Iterator[dict[str, Any]]:
    kinds = (
        ("gradient", report.gradients),
        ("finding", report.findings),
        ("not-covered", report.not_covered),
    )
    for kind, items in kinds:
        for item in items:
            yield {"type": kind, **msgspec.to_builtins(item)}
    yield {
        "type": "summary",
        "schema_version": report.schema_version,
        "tool": msgspec.to_builtins(report.tool),
        **msgspec.to_builtins(report.summary),
    }
