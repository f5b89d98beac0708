"""All subjects of one dtype judged, and richer ones where these leave something unseen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.check.apart_in_floats import apart_in_floats
from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.excused import excused
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.invented import softened
from gradcheck_cli.check.longer import of_its_formula
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.refused import broken
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.richer_subjects import richer_subjects
from gradcheck_cli.subject.protocol import Subject

_ONE_IS_ENOUGH = (
    "of signatures that are judged in part, one is judged, and those at which floats show a fault"
)


def judged_subjects(
    request: Request, start: Opening, subjects: Sequence[Subject], outcome: GradientOutcome
) -> Iterator[GradientOutcome]:
    """The outcome until now, after each step; failures are told once in each dtype."""
    before = len(outcome.failures)
    for subject in subjects:
        for latest in _with(request, start, subject, outcome, before):
            yield (outcome := latest)
    if subjects and not start.hints.specs:
        richer = richer_subjects(request, subjects, start.hints, outcome)
        if richer.broken is not None:
            outcome += broken(request, *richer.broken, subjects[-1].dtype)
            yield outcome
        if richer.one_piece:
            outcome += GradientOutcome(one_piece=richer.one_piece)
            yield outcome
        for subject in richer.subjects:
            for latest in _with(request, start, subject, outcome, before):
                yield (outcome := latest)


def _with(
    request: Request, start: Opening, subject: Subject, outcome: GradientOutcome, before: int
) -> Iterator[GradientOutcome]:
    """The outcome after each step of judging one more subject; earlier failures are those after `before`."""
    if outcome.in_part and not apart_in_floats(request, subject):
        left_out = ((subject.signature.describe(), _ONE_IS_ENOUGH),)
        yield outcome + GradientOutcome(left_out=left_out)
        return
    earlier = outcome.failures[before:]
    found = GradientOutcome()
    for step in attempt(request, subject, start.intents, earlier):
        heard = softened(request, subject.signature, step)
        found += of_its_formula(subject.signature, heard)
        yield outcome + found
    if found.stands_still:
        outcome += GradientOutcome(still=(subject.signature,))
    yield outcome + excused(request, start, subject, found, outcome, before)
