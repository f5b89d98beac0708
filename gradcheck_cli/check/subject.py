"""One subject judged: tried at its points, held to all laws, its failures explained."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from gradcheck_cli.check.adequate import adequate
from gradcheck_cli.check.at_home import tried_at_home
from gradcheck_cli.check.findings import findings
from gradcheck_cli.check.judgements import Judgements, judgements
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.search import grown_gap, hidden_error
from gradcheck_cli.check.tally import counted, lies_inside, tried
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected


def judged(
    request: Request, subject: Subject, intents: Sequence[Declared], earlier: Sequence[Failure]
) -> Iterator[GradientOutcome]:
    """What each step adds to the outcome; `earlier` are failures at simpler signatures."""
    yield GradientOutcome(last=subject.signature.describe())
    with request.progress.timing("traces, floats and the truth"):
        trial = tried_at_home(request, subject)
    m = trial.measurements
    if not lies_inside(m):
        raise Rejected(f"none of the {m.count} points that were tried lies inside its domain")
    yield tried(trial, request.gradient.parameters()) + counted(m)
    on_lattice = judgements(request, m, intents)
    yield on_lattice.outcome
    told, wrong = yield from _explained(request, on_lattice, intents, earlier)
    if not wrong:
        yield adequate(request, m)
    hidden = None if on_lattice.has_error or wrong else hidden_error(request, m)
    if hidden is not None:
        yield counted(hidden)
        beyond = judgements(request, hidden, intents)
        yield beyond.outcome
        yield from _explained(request, beyond, intents, told)


def _explained(
    request: Request, here: Judgements, intents: Sequence[Declared], earlier: Sequence[Failure]
) -> Generator[GradientOutcome, None, tuple[Sequence[Failure], bool]]:
    """The findings; before them those of where a small gap is large. At last what is told by then, and if it is wrong."""
    told, wrong = earlier, here.is_wrong
    grown = grown_gap(request, here.m) if here.approximates and not wrong else None
    if grown is not None:
        there = judgements(request, grown, intents)
        yield counted(grown) + there.outcome
        yield from findings(request, there, earlier)
        told, wrong = [*earlier, *there.failures], there.is_wrong
    yield from findings(request, here, told)
    return told, wrong
