"""The machine-readable report: a contract, version 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import SCHEMA_VERSION, Report
from gradcheck_cli.contract.schemas import schema_of
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.report.json_text import indented
from gradcheck_cli.report.look import Look


def render(report: Report, look: Look) -> str:
    """Indented JSON, however it is to look; the same report gives the same bytes."""
    data = msgspec.to_builtins(report)
    if data.get("durations") is None:
        data.pop("durations", None)
    return indented(data)


def render_map(sweep: Map, width: int) -> str:
    """The map of a sweep, every stretch of it."""
    return msgspec.json.format(msgspec.json.encode(sweep), indent=1).decode() + "\n"


def read(path: Path) -> Report:
    """A report from its file; raises `UsageError` for what is none, or of another version."""
    try:
        report = msgspec.json.decode(path.read_bytes(), type=Report)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no report of cgcheck's: {error}") from None
    if report.schema_version != SCHEMA_VERSION:
        raise UsageError(f"{path} has version {report.schema_version}; this cgcheck reads {SCHEMA_VERSION}")  # fmt: skip
    return report


def schema() -> dict[str, Any]:
    """The JSON Schema of the report."""
    return schema_of(Report)
