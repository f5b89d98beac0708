"""A report without the findings that a baseline knows: they are counted, and fail nothing."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Report
from gradcheck_cli.project.baseline import Baseline, can_be_known
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import counted
from gradcheck_cli.run.exit_code import COULD_NOT_CHECK, exit_code


def without_known(report: Report, baseline: Baseline, settings: Settings) -> Report:
    """What is new; of each known finding as many are hidden as there were. Verdicts stay as they are."""
    room = Counter({known.fingerprint: known.count for known in baseline.findings})
    kept = [i for i, finding in enumerate(report.findings) if not _is_known(finding, room)]
    places = {old: new for new, old in enumerate(kept)}
    gradients = [_with_places(gradient, places) for gradient in report.gradients]
    findings = [report.findings[i] for i in kept]
    code = report.summary.exit_code
    if code < COULD_NOT_CHECK:
        code = exit_code(gradients, findings, report.not_covered, settings)
    known = len(report.findings) - len(findings)
    summary = replace(report.summary, exit_code=code, known=known, **counted(findings))
    return replace(report, gradients=gradients, findings=findings, summary=summary)


def _is_known(finding: Finding, room: Counter[str]) -> bool:
    if not can_be_known(finding) or not room[finding.fingerprint]:
        return False
    room[finding.fingerprint] -= 1
    return True


def _with_places(gradient: Gradient, places: dict[int, int]) -> Gradient:
    here = [places[k] for k in gradient.findings if k in places]
    hidden = len(gradient.findings) - len(here)
    return replace(gradient, findings=here, ignored=gradient.ignored + hidden)
