"""The machine-readable report: a contract, version 1."""

from __future__ import annotations

from typing import Any

import msgspec

from gradcheck_cli.contract.report import Report
from gradcheck_cli.report.json_text import indented
from gradcheck_cli.report.look import Look


def render(report: Report, look: Look) -> str:
    """Indented JSON, however it is to look; the same report gives the same bytes."""
    data = msgspec.to_builtins(report)
    if data.get("durations") is None:
        data.pop("durations", None)
    return indented(data)


def schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    return msgspec.json.schema(Report)
