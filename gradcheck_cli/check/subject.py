"""One subject judged: tried at its points, held to all laws, its failures explained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.check.adequate import adequate
from gradcheck_cli.check.findings import findings
from gradcheck_cli.check.judgements import judgements
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.search import hidden_error
from gradcheck_cli.check.tally import counted, lies_inside, tried
from gradcheck_cli.check.trial import tried_at_home
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
    yield from findings(request, on_lattice, earlier)
    if not on_lattice.is_wrong:
        yield adequate(request, m)
    hidden = None if on_lattice.has_error else hidden_error(request, m)
    if hidden is not None:
        yield counted(hidden)
        beyond = judgements(request, hidden, intents)
        yield beyond.outcome
        yield from findings(request, beyond, earlier)
