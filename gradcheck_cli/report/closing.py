"""The last line of a report: how much was checked, and what was found."""

from __future__ import annotations

from gradcheck_cli.contract.report import Evidence, Finding, Gradient, Report, Severity, Verdict


def closing(report: Report) -> str:
    """`3 of 4 gradients checked in 2 files: 1 error, 0 warnings, 2 notes.`"""
    return _checked(report) + _found(report) + "."


def start_with(report: Report) -> str:
    """`2 wrong, 1 unstable: start with model.py:19.`; nothing where no gradient has an error that is shown."""
    told = [g for g in report.gradients if _errors(g, report)]
    graves = (Verdict.WRONG, Verdict.UNSTABLE)
    counts = [(sum(g.verdict is v for g in told), v.value) for v in graves]
    words = ", ".join(f"{number} {word}" for number, word in counts if number)
    if not words:
        return ""
    first = next(g for v in graves for g in told if g.verdict is v)
    finding = _errors(first, report)[0]
    return f"{words}: start with {finding.path}:{finding.line}."


def _errors(gradient: Gradient, report: Report) -> list[Finding]:
    findings = (report.findings[number] for number in gradient.findings)
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def count(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _checked(report: Report) -> str:
    s = report.summary
    if s.linted:
        each = count(s.files, "file")
        return f"{each if s.linted == s.files else f'{s.linted} of {each}'} linted"
    if not s.files:
        return "There was no file to look at"
    if not s.gradients and s.exit_code > 1:
        return f"Nothing could be checked in {count(s.files, 'file')}"
    if not s.gradients:
        return f"No custom gradients in {count(s.files, 'file')}"
    return f"{s.checked} of {count(s.gradients, 'gradient')} checked in {count(s.files, 'file')}"


def _found(report: Report) -> str:
    s = report.summary
    text = ""
    if s.errors or s.warnings or s.notes:
        text = f": {count(s.errors, 'error')}, {count(s.warnings, 'warning')}, {count(s.notes, 'note')}"
    certified = [
        g
        for g in report.gradients
        if g.evidence is Evidence.CERTIFIED
        and g.verdict is not Verdict.INCONCLUSIVE
        and not (g.adequacy and g.adequacy.at_shapes_only)
    ]
    ignored = any(g.ignored for g in report.gradients)
    if (
        certified
        and len(certified) == s.checked == s.gradients
        and not (s.errors or s.warnings or s.known or ignored)
    ):
        text += ", all certified"
    return text + (f"; {count(s.known, 'known finding')} not shown" if s.known else "")
