"""What many files or gradients share, told once: a package that is not installed, a file that could not be imported."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.contract.report import Finding, NotCovered
from gradcheck_cli.report.by_file import Section

_SEVERAL = 3  # fewer are told one by one
_NAMED = 4  # of many


def grouped(files: Sequence[Section]) -> list[list[Section]]:
    """Files of which one finding is all there is to tell, in order; where several have the same, all stand with the first."""
    groups: dict[tuple[str, ...], list[Section]] = {}
    for section in files:
        groups.setdefault(_said(section.findings[0]), []).append(section)
    told: list[list[Section]] = []
    for section in files:
        alike = groups[_said(section.findings[0])]
        if len(alike) < _SEVERAL:
            told.append([section])
        elif section is alike[0]:
            told.append(alike)
    return told


def _said(finding: Finding) -> tuple[str, ...]:
    return finding.rule, finding.severity, finding.message, finding.help or ""


def with_one_reason(items: Sequence[NotCovered]) -> list[tuple[NotCovered, str]]:
    """What was not covered, with the names of all gradients of which the same is to be said."""
    groups: dict[tuple[str, str, str], list[NotCovered]] = {}
    for item in items:
        groups.setdefault((item.what, item.reason, item.add or ""), []).append(item)
    told: list[tuple[NotCovered, str]] = []
    for item in items:
        alike = groups[item.what, item.reason, item.add or ""]
        if len(alike) < _SEVERAL or not item.gradient:
            told.append((item, item.gradient))
        elif item is alike[0]:
            told.append((item, listed([each.gradient for each in alike])))
    return told


def listed(names: Sequence[str]) -> str:
    """`a, b and c`, or the first few and how many more there are; each name once."""
    each = list(dict.fromkeys(names))
    if len(each) > _NAMED + 1:
        return f"{', '.join(each[:_NAMED])} and {len(each) - _NAMED} more"
    return " and ".join([", ".join(each[:-1]), each[-1]]) if len(each) > 1 else "".join(each)
