"""Workflow commands, which GitHub shows beside the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.contract.report import Report, Severity
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import advice, headline, one_line, plain, told, unchecked

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, look: Look) -> str:
    """`::error file=model.py,line=19,title=gradient-mismatch::…`, then the closing line."""
    return "\n".join((*_commands(report, look), closing(report))) + "\n"


def _commands(report: Report, look: Look) -> Iterator[str]:
    for finding in told(report, look.verbose):
        place = {
            "file": finding.path,
            "line": str(finding.line),
            "endLine": str(finding.end_line or finding.line),
            "col": str(finding.column),
            "title": f"cgcheck {finding.rule}",
        }
        if finding.end_column is not None and finding.end_line in (None, finding.line):
            place["endColumn"] = str(finding.end_column)
        lines = [headline(finding), advice(finding)]
        yield _command(_COMMANDS[finding.severity], place, "\n".join(filter(None, lines)))
    for item, path, line in unchecked(report):
        place = {"file": path, "line": str(line), "title": "cgcheck could not check"}
        text = one_line(f"{item.gradient}: {item.reason}")
        yield _command("warning", place, text + (f"\nadd {one_line(item.add)}" if item.add else ""))


def _command(name: str, place: dict[str, str], text: str) -> str:
    properties = ",".join(f"{key}={_property(value)}" for key, value in place.items())
    return f"::{name} {properties}::{_data(text)}"


def _data(text: str) -> str:
    """The text with what would end a command written otherwise."""
    return plain(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
