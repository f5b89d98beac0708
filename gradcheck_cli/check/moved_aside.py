"""What was found where nobody is known to go, told as notes beside what is found where people are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.check.invented import as_notes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.measure.failure import Failure


def notes_of(found: GradientOutcome) -> list[Failure]:
    """The failures of which it was said that they are notes."""
    return [f for f in found.failures if f.severity is Severity.NOTE]


def moved_aside(found: GradientOutcome, earlier: Sequence[Failure], why: str) -> GradientOutcome:
    """What was found, as notes that say why they count no more; the laws are judged elsewhere.

    An error at other settings is told all the same: there the rule may be wrong elsewhere, too.
    """
    told = _not_told(found, earlier)
    failures = tuple(replace(f, severity=Severity.NOTE) for f in told.failures)
    return replace(as_notes(told, why), failures=failures, laws=(), trials=(), inputs=())


def _not_told(found: GradientOutcome, earlier: Sequence[Failure]) -> GradientOutcome:
    """What was found, without errors all of which were moved aside at other settings, too."""
    errors = [f for f in found.failures if f.severity is Severity.ERROR]
    if not errors or not all(any(old.rule == f.rule and old.ground == f.ground for old in earlier) for f in errors):  # fmt: skip
        return found
    return replace(found, findings=tuple(f for f in found.findings if f not in found.called_wrong))
