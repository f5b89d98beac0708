"""A report without the findings that a baseline knows: they are counted, and fail nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Report, Suppressed, Suppressor
from gradcheck_cli.project.baseline import Baseline, can_be_known
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.exit_code import COULD_NOT_CHECK, exit_code
from gradcheck_cli.run.renumbered import file_of, renumbered


@dataclass(frozen=True, slots=True)
class Room:
    """How many findings of each fingerprint a baseline still hides, and why."""

    left: Counter[str]
    reasons: dict[str, str]

    @staticmethod
    def of(baseline: Baseline) -> Room:
        """All that it hides."""
        every = {known.fingerprint: known for known in baseline.findings}
        counts = Counter({name: known.count for name, known in every.items()})
        return Room(counts, {name: known.reason for name, known in every.items()})

    def takes(self, finding: Finding) -> bool:
        """Does it hide this finding, too? Then there is room for one less."""
        if not can_be_known(finding) or not self.left[finding.fingerprint]:
            return False
        self.left[finding.fingerprint] -= 1
        return True

    def suppressed(self, finding: Finding, path: str) -> Suppressed:
        """The finding for the record, with what the baseline's reader wrote of it."""
        reason = self.reasons.get(finding.fingerprint) or None
        alone = replace(finding, gradient_index=None)
        return Suppressed(finding=alone, by=Suppressor.BASELINE, path=path, reason=reason)


def without_known(report: Report, room: Room, settings: Settings) -> Report:
    """What is new; as many findings are hidden as there is room for, which they take. Verdicts stay as they are."""
    kept = [i for i, finding in enumerate(report.findings) if not room.takes(finding)]
    part = renumbered(report, range(len(report.gradients)), kept)
    pairs = zip(report.gradients, part.gradients, strict=True)
    gradients = [_with_hidden(gradient, left) for gradient, left in pairs]
    code = report.summary.exit_code
    if code < COULD_NOT_CHECK:
        code = exit_code(gradients, part.findings, report.not_covered, settings)
    gone = set(range(len(report.findings))).difference(kept)
    quiet = [report.findings[i] for i in sorted(gone)]
    known = [room.suppressed(finding, file_of(finding, report)) for finding in quiet]
    summary = replace(part.summary, exit_code=code, known=len(known))
    return replace(
        part, gradients=gradients, summary=summary, suppressed=[*part.suppressed, *known]
    )


def _with_hidden(before: Gradient, left: Gradient) -> Gradient:
    """The gradient with a count of what is not told of it any more."""
    hidden = len(before.findings) - len(left.findings)
    return replace(left, ignored=before.ignored + hidden)
