"""A gradient in each dtype: all signatures that fit, all laws."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.other_shapes import other_shapes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.refused import refused_broadcast
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.signatures import signatures
from gradcheck_cli.check.subjects import judged_subjects
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.infer.second_chance import second_chances

_WIDE = "float64"
_REFUSED = (
    RuleName.GRADIENT_STRUCTURE,
    RuleName.RULE_RAISES,
    RuleName.UNDEFINED_NAME,
    RuleName.OUT_OF_BOUNDS,
)


def outcomes(request: Request, start: Opening) -> Iterator[GradientOutcome]:
    """The outcome until now, after each step."""
    outcome = start.outcome
    if start.hints.obstacle:
        yield outcome + GradientOutcome(reasons=(start.hints.obstacle,), beyond_inputs=True)
        return
    for dtype in request.task.dtypes:
        for latest in _of_dtype(request, start, dtype, outcome):
            yield latest
            outcome = latest
    if not outcome.checked and not outcome.findings and _WIDE not in request.task.dtypes:
        # Nothing fits at all: the tables that a factory made may be wide.
        yield from _of_dtype(request, start, _WIDE, outcome)


def _of_dtype(
    request: Request, start: Opening, dtype: str, outcome: GradientOutcome
) -> Iterator[GradientOutcome]:
    """The outcome until now, after each step in one dtype."""
    fitting = signatures(request, dtype, start.hints)
    yield (outcome := outcome + fitting.outcome)
    for latest in judged_subjects(request, start, fitting.subjects, outcome):
        yield (outcome := latest)
    if fitting.subjects and not outcome.checked and not start.hints.specs:
        others = list(second_chances(request.gradient, fitting.subjects, dtype, start.hints.clues))
        for latest in judged_subjects(request, start, others, outcome):
            yield (outcome := latest)
    if fitting.subjects and not _lacks_structure(outcome):
        yield (
            outcome := outcome + refused_broadcast(request, fitting.subjects, dtype, start.hints)
        )
    if fitting.subjects and not start.hints.specs:
        yield outcome + other_shapes(request, fitting.subjects, outcome)


def _lacks_structure(outcome: GradientOutcome) -> bool:
    return any(f.rule in _REFUSED for f in outcome.findings)
