"""The findings that a source cannot be read: it is no Python, at the place where Python stops, or it is not looked at."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.rule_pages import find


def no_python(path: str, source: str, error: Exception) -> Finding:
    """What Python says of the source, as `error`; the line alone where it names no place in it."""
    line = getattr(error, "lineno", None) or 1
    problem = getattr(error, "msg", None) or str(error) or type(error).__name__
    rule = find(RuleName.SYNTAX_ERROR)
    finding = rule.finding(path, line, f"it is not valid Python: {problem}")
    if not isinstance(error, SyntaxError) or not error.offset:
        return finding
    if (error.text or "").rstrip("\r\n") not in source.splitlines()[line - 1 : line]:
        return finding  # of an f-string Python counts within the braces
    here = error.end_lineno == line and (error.end_offset or 0) > error.offset
    end = error.end_offset if here else error.offset + 1
    return replace(finding, column=error.offset, end_line=line, end_column=end)


def unread(path: str, line: int, why: str) -> Finding:
    """Why nothing is said of a source."""
    return find(RuleName.UNREADABLE_FILE).finding(path, line, why)
