"""What many files or gradients share, told once: a package that is not installed, a file that could not be imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Finding, NotCovered, Report
from gradcheck_cli.report.by_file import sections

_SEVERAL = 3  # fewer are told one by one
_NAMED = 4  # of many


@dataclass(frozen=True, slots=True)
class Shared:
    """The files of which nothing else is told than one finding, by the first of them."""

    others: dict[str, list[str]]

    def follows(self, path: str) -> bool:
        """Is what there is to say of the file told with another one?"""
        return any(path in paths for paths in self.others.values())


def shared(report: Report) -> Shared:
    """The findings about files that several have in common."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for section in sections(report):
        judged = any(each.is_told for each in section.gradients)
        if len(section.findings) == 1 and not judged:
            groups.setdefault(_said(section.findings[0]), []).append(section.path)
    return Shared({paths[0]: paths[1:] for paths in groups.values() if len(paths) >= _SEVERAL})


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
