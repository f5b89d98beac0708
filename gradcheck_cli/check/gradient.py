"""One custom gradient, from its parameters to its verdict, what makes it right, and what is drawn of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.corrections import correctable, corrected, uncorrected
from gradcheck_cli.check.deadline import OutOfTime
from gradcheck_cli.check.each_dtype import outcomes
from gradcheck_cli.check.hints import opening
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.plots import plots
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Checked, Phase


def examine(request: Request) -> Iterator[Checked]:
    """All dtypes, all signatures that fit, all laws; out of time, what there is until then.

    A wrong gradient is handed out twice, before and after its correction is looked for: that runs
    changed rules, which may kill the process. So is one that is to be drawn. What is cut off where others took
    most of the time is provisional, too: another worker begins with it.
    """
    request.progress.doing(Phase.INPUTS)
    start = opening(request)
    outcome = start.outcome
    with request.framework.steady():
        try:
            for latest in outcomes(request, start):
                outcome = latest
        except OutOfTime:
            outcome = _cut_off(request, outcome)
        request.progress.unhurried()
        if correctable(outcome) and not outcome.late:
            before = checked(request, start, uncorrected(outcome))
            yield msgspec.structs.replace(before, provisional=True)
            outcome = corrected(request, outcome)
            request.progress.unhurried()
        if request.task.plots and not outcome.late:
            before = checked(request, start, outcome)
            yield msgspec.structs.replace(before, provisional=True)
            outcome = _drawn(request, outcome)
            request.progress.unhurried()
    again = outcome.late and request.progress.clock.began_late
    yield msgspec.structs.replace(checked(request, start, outcome), provisional=again)


def _drawn(request: Request, outcome: GradientOutcome) -> GradientOutcome:
    """The outcome with its plots; without, if time is up before they are measured."""
    try:
        return outcome + GradientOutcome(plots=tuple(plots(request, outcome)))
    except OutOfTime:
        return outcome


def _cut_off(request: Request, outcome: GradientOutcome) -> GradientOutcome:
    """What there is when time is up, and what that leaves out."""
    why = request.too_long
    after = ((f"what comes after {outcome.last or 'the inputs'}", why),) if outcome.checked else ()
    return replace(
        outcome + GradientOutcome(late=True, left_out=after), reasons=(why, *outcome.reasons)
    )
