"""The findings that a source cannot be read: it is no Python, at the place where Python stops, or it is not looked at."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.project.rule_pages import find


def no_python(path: str, error: Exception) -> Finding:
    """What Python says of the source, as `error`; the line alone where it names no place in it."""
    line = getattr(error, "lineno", None) or 1
    problem = getattr(error, "msg", None) or str(error) or type(error).__name__
    rule = find(RuleName.SYNTAX_ERROR)
    finding = rule.finding(path, line, f"it is not valid Python: {problem}")
    if not isinstance(error, SyntaxError) or not error.offset:
        return finding
    text = error.text or ""
    column, ends = _bytes(text, error.offset), error.end_lineno == line and error.end_offset
    end = _bytes(text, error.end_offset or 0) if ends else 0
    end = end if end > column else column + 1
    return replace(finding, column=column, end_line=line, end_column=end)


def unread(path: str, line: int, why: str) -> Finding:
    """Why nothing is said of a source."""
    return find(RuleName.UNREADABLE_FILE).finding(path, line, why)


def _bytes(text: str, place: int) -> int:
    """A place in a line as others count it: from one on, in bytes."""
    return len(text[: place - 1].encode("utf-8", "surrogatepass")) + 1 if place > 0 else place
