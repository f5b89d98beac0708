"""What was found at one subject, with errors as notes that only show where nobody is known to go: each excuse is a file of its own."""

from __future__ import annotations

from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.one_element import unless_of_one_element
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.unmeant import unless_unmeant
from gradcheck_cli.check.unnatural import unless_unnatural
from gradcheck_cli.subject.protocol import Subject


def excused(
    request: Request,
    start: Opening,
    subject: Subject,
    found: GradientOutcome,
    before: GradientOutcome,
    told: int,
) -> GradientOutcome:
    """What is left of it beside what was found before; the failures of that count from `told` on."""
    earlier = before.failures[told:]
    found = unless_of_one_element(subject, found, before, earlier)
    found = unless_unmeant(request, start, subject, found, earlier)
    return unless_unnatural(request, start, subject, found, earlier)
