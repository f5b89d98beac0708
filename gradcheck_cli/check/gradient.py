"""One custom gradient, from its parameters to its verdict: all dtypes, all signatures, all laws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.corrections import correctable, corrected, uncorrected
from gradcheck_cli.check.deadline import OutOfTime
from gradcheck_cli.check.hints import Opening, opening
from gradcheck_cli.check.other_shapes import other_shapes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.signatures import refused_broadcast, signatures
from gradcheck_cli.check.subjects import judged_subjects
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked, Phase
from gradcheck_cli.infer.second_chance import second_chances

_REFUSED = (RuleName.GRADIENT_STRUCTURE, RuleName.RULE_RAISES)


def examine(request: Request) -> Iterator[Checked]:
    """All dtypes, all signatures that fit, all laws; out of time, what there is until then.

    A wrong gradient is handed out twice, before and after its correction is looked for: that runs
    changed rules, which may kill the process.
    """
    request.progress.doing(Phase.INPUTS)
    start = opening(request)
    outcome = start.outcome
    with request.framework.steady():
        try:
            for latest in _outcomes(request, start):
                outcome = latest
        except OutOfTime:
            outcome = _cut_off(request, outcome)
        request.progress.unhurried()
        if correctable(outcome) and not outcome.late:
            before = checked(request, start, uncorrected(outcome))
            yield msgspec.structs.replace(before, provisional=True)
            outcome = corrected(request, outcome)
            request.progress.unhurried()
    yield checked(request, start, outcome)


def _outcomes(request: Request, start: Opening) -> Iterator[GradientOutcome]:
    """The outcome until now, after each step."""
    outcome = start.outcome
    if start.hints.obstacle:
        yield outcome + GradientOutcome(reasons=(start.hints.obstacle,), beyond_inputs=True)
        return
    for dtype in request.task.dtypes:
        for latest in _of_dtype(request, start, dtype, outcome):
            yield latest
            outcome = latest


def _of_dtype(
    request: Request, start: Opening, dtype: str, outcome: GradientOutcome
) -> Iterator[GradientOutcome]:
    """The outcome until now, after each step in one dtype."""
    fitting = signatures(request, dtype, start.hints)
    yield (outcome := outcome + fitting.outcome)
    for latest in judged_subjects(request, start, fitting.subjects, outcome):
        yield (outcome := latest)
    if fitting.subjects and not outcome.checked and not start.hints.specs:
        others = list(second_chances(request.gradient, fitting.subjects, dtype))
        for latest in judged_subjects(request, start, others, outcome):
            yield (outcome := latest)
    if fitting.subjects and not _lacks_structure(outcome):
        yield (outcome := outcome + refused_broadcast(request, fitting.subjects, dtype))
    if fitting.subjects and not start.hints.specs:
        yield outcome + other_shapes(request, fitting.subjects, outcome)


def _lacks_structure(outcome: GradientOutcome) -> bool:
    return any(f.rule in _REFUSED for f in outcome.findings)


def _cut_off(request: Request, outcome: GradientOutcome) -> GradientOutcome:
    """What there is when time is up, and what that leaves out."""
    why = request.too_long
    after = ((f"what comes after {outcome.last or 'the inputs'}", why),) if outcome.checked else ()
    return replace(
        outcome + GradientOutcome(late=True, left_out=after), reasons=(why, *outcome.reasons)
    )
