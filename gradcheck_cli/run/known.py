"""A report without the findings that a baseline knows: they are counted, and fail nothing."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Report
from gradcheck_cli.project.baseline import Baseline, can_be_known
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.exit_code import COULD_NOT_CHECK, exit_code
from gradcheck_cli.run.renumbered import renumbered


def room_of(baseline: Baseline) -> Counter[str]:
    """How many findings of each fingerprint it hides."""
    return Counter({known.fingerprint: known.count for known in baseline.findings})


def without_known(report: Report, room: Counter[str], settings: Settings) -> Report:
    """What is new; as many findings are hidden as there is room for, which they take. Verdicts stay as they are."""
    kept = [i for i, finding in enumerate(report.findings) if not _is_known(finding, room)]
    part = renumbered(report, range(len(report.gradients)), kept)
    pairs = zip(report.gradients, part.gradients, strict=True)
    gradients = [_with_hidden(gradient, left) for gradient, left in pairs]
    code = report.summary.exit_code
    if code < COULD_NOT_CHECK:
        code = exit_code(gradients, part.findings, report.not_covered, settings)
    known = len(report.findings) - len(kept)
    summary = replace(part.summary, exit_code=code, known=known)
    return replace(part, gradients=gradients, summary=summary)


def _is_known(finding: Finding, room: Counter[str]) -> bool:
    if not can_be_known(finding) or not room[finding.fingerprint]:
        return False
    room[finding.fingerprint] -= 1
    return True


def _with_hidden(before: Gradient, left: Gradient) -> Gradient:
    """The gradient with a count of what is not told of it any more."""
    hidden = len(before.findings) - len(left.findings)
    return replace(left, ignored=before.ignored + hidden)
