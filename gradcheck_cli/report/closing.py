"""The last line of a report: how much was checked, and what was found."""

from __future__ import annotations

from gradcheck_cli.contract.report import Evidence, Report


def closing(report: Report) -> str:
    """`3 of 4 gradients checked in 2 files: 1 error, 0 warnings, 2 notes.`"""
    return _checked(report) + _found(report) + "."


def count(number: int, word: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _checked(report: Report) -> str:
    s = report.summary
    if not s.gradients and s.exit_code > 1:
        return f"Nothing could be checked in {count(s.files, 'file')}"
    if s.linted:
        return f"{count(s.linted, 'file')} linted"
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
        if g.evidence is Evidence.CERTIFIED and not (g.adequacy and g.adequacy.at_shapes_only)
    ]
    if certified and len(certified) == s.checked and not s.errors and not s.warnings:
        text += ", all certified"
    return text
