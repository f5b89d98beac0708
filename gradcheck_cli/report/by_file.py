"""A report by its files: what is found of each, and the gradients in it, read off once."""

from __future__ import annotations

from dataclasses import dataclass, field

from gradcheck_cli.contract.report import Finding, Gradient, Report, Status


@dataclass(frozen=True, slots=True)
class Numbered:
    """A gradient with its number in the report."""

    number: int
    gradient: Gradient

    @property
    def is_told(self) -> bool:
        """Is there more to say of it than that it could not be checked?"""
        return self.gradient.status is Status.CHECKED or bool(self.gradient.findings)


@dataclass(frozen=True, slots=True)
class Section:
    """One file: findings that are about no gradient, then the gradients."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    gradients: list[Numbered] = field(default_factory=list)


def sections(report: Report) -> list[Section]:
    """The files of which there is anything to say, by their names."""
    by_path: dict[str, Section] = {}
    for finding in report.findings:
        if finding.gradient_index is None:
            by_path.setdefault(finding.path, Section(finding.path)).findings.append(finding)
    for number, gradient in enumerate(report.gradients):
        section = by_path.setdefault(gradient.path, Section(gradient.path))
        section.gradients.append(Numbered(number, gradient))
    return [by_path[path] for path in sorted(by_path)]
