"""A part of a report: gradients and findings know of each other by number, and some of them go."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Report
from gradcheck_cli.run.assemble import counted


def renumbered(report: Report, gradients: Sequence[int], findings: Sequence[int]) -> Report:
    """The report with these of its gradients and findings alone, by their new numbers; no finding without its gradient."""
    number = {old: new for new, old in enumerate(gradients)}
    place = {old: new for new, old in enumerate(findings)}
    kept = [report.gradients[i] for i in gradients]
    told = [report.findings[i] for i in findings]
    kept = [replace(g, findings=[place[k] for k in g.findings if k in place]) for g in kept]
    told = [
        f if f.gradient_index is None else replace(f, gradient_index=number[f.gradient_index])
        for f in told
    ]
    summary = replace(report.summary, **counted(told))
    return replace(report, gradients=kept, findings=told, summary=summary)


def file_of(finding: Finding, report: Report) -> str:
    """The file that a finding is about: where its gradient is defined, which may be another than where it stands."""
    owner = finding.gradient_index
    return finding.path if owner is None else report.gradients[owner].path


def narrowed(report: Report, fingerprint: str) -> Report:
    """A report with one finding alone, and the gradients that it is about."""
    kept = [i for i, f in enumerate(report.findings) if f.fingerprint == fingerprint]
    owners = {report.findings[i].gradient_index for i in kept}
    part = renumbered(report, sorted(owner for owner in owners if owner is not None), kept)
    return replace(part, not_covered=[], suppressed=[])
