"""What the formats of one line a finding have in common: which findings are told, and how, in plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradcheck_cli.contract.report import Finding, NotCovered, Report, Severity

# Neither XML nor a terminal wants these.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def told(report: Report, verbose: bool) -> Iterator[Finding]:
    """Errors and warnings, by file and line; notes, and what the run did not confirm, if `verbose`."""
    kept = (f for f in report.findings if verbose or _matters(f))
    return iter(sorted(kept, key=_place))


def by_file(report: Report, verbose: bool) -> Iterator[Finding]:
    """As `told`, but by the files that were checked, which may be others than those where a fault stands."""

    def place(finding: Finding) -> tuple[str, tuple[str, int, int, str, str]]:
        owner = finding.gradient_index
        checked = finding.path if owner is None else report.gradients[owner].path
        return checked, _place(finding)

    return iter(sorted((f for f in report.findings if verbose or _matters(f)), key=place))


def unchecked(report: Report) -> Iterator[tuple[NotCovered, str, int]]:
    """What could not be checked at all, with the file and the line of its definition."""
    lines = {(g.path, g.qualname): g.line for g in report.gradients}
    for item in report.not_covered:
        if item.is_whole:
            path = item.path or ""
            yield item, path, lines.get((path, item.gradient), 1)


def headline(finding: Finding) -> str:
    """The gradient and what is the matter with it, in one line."""
    name = finding.gradient
    named = name is None or finding.message.startswith((f"`{name}`", name))
    return one_line(finding.message if named else f"{name}: {finding.message}")


def advice(finding: Finding) -> str:
    """What to write, or else what to do."""
    return one_line(f"write {finding.fix}" if finding.fix else finding.help or "")


def one_line(text: str) -> str:
    """The text without line breaks and without what no line may hold."""
    return re.sub(r"\s+", " ", plain(text)).strip()


def plain(text: str) -> str:
    """The text without control characters and halves of characters."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _place(finding: Finding) -> tuple[str, int, int, str, str]:
    return finding.path, finding.line, finding.column, finding.code, finding.fingerprint


def _matters(finding: Finding) -> bool:
    return finding.severity is not Severity.NOTE and finding.withdrawn_by is None
