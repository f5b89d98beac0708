"""Several reports as one: of parts of a project that were checked apart, or of files that were checked again."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import asdict, replace

from gradcheck_cli.contract.report import Finding, Gradient, Report, Status, Tool
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import counted
from gradcheck_cli.run.exit_code import COULD_NOT_CHECK, exit_code
from gradcheck_cli.run.renumbered import file_of, renumbered


def merged(reports: Sequence[Report]) -> Report:
    """The gradients and findings of all of them, one report after the other."""
    first = reports[0]
    gradients: list[Gradient] = []
    findings: list[Finding] = []
    for report in reports:
        moved, before = len(gradients), len(findings)
        findings += [_moved(finding, moved) for finding in report.findings]
        gradients += [
            replace(g, findings=[before + number for number in g.findings])
            for g in report.gradients
        ]
    left = [item for report in reports for item in report.not_covered]
    parts = [report.summary for report in reports]
    whole = sum(item.is_whole for item in left)
    checked = sum(g.status is Status.CHECKED for g in gradients)
    summary = replace(
        first.summary,
        exit_code=max(part.exit_code for part in parts),  # the graver, the higher
        files=sum(part.files for part in parts),
        linted=sum(part.linted for part in parts),
        known=sum(part.known for part in parts),
        gradients=checked + whole,
        checked=checked,
        unchecked=whole,
        **counted(findings),
    )
    times = [report.durations for report in reports if report.durations is not None]
    return replace(
        first,
        tool=_tool(reports),
        summary=summary,
        gradients=gradients,
        findings=findings,
        not_covered=left,
        suppressed=[item for report in reports for item in report.suppressed],
        durations={name: s for each in times for name, s in each.items()} if times else None,
    )


def without(report: Report, paths: Collection[str], settings: Settings) -> Report:
    """A report without what it says of these files."""
    numbers = [i for i, g in enumerate(report.gradients) if g.path not in paths]
    kept = [i for i, f in enumerate(report.findings) if file_of(f, report) not in paths]
    part = renumbered(report, numbers, kept)
    gone = {file_of(f, report) for f in report.findings} | {g.path for g in report.gradients}
    left = [item for item in report.not_covered if item.path not in paths]
    # What could not be checked, or was interrupted, is so without these files, too.
    before = report.summary.exit_code
    code = (
        before
        if before >= COULD_NOT_CHECK
        else exit_code(part.gradients, part.findings, left, settings)
    )
    files = report.summary.files - len(gone & set(paths))
    quiet = [item for item in part.suppressed if item.path not in paths]
    summary = replace(part.summary, exit_code=code, files=files)
    return replace(part, not_covered=left, suppressed=quiet, summary=summary)


def _moved(finding: Finding, count: int) -> Finding:
    owner = finding.gradient_index
    return finding if owner is None else replace(finding, gradient_index=owner + count)


def _tool(reports: Sequence[Report]) -> Tool:
    """The versions that any of them names."""
    named = [{k: v for k, v in asdict(r.tool).items() if v is not None} for r in reports]
    return replace(reports[0].tool, **{k: v for versions in named for k, v in versions.items()})
