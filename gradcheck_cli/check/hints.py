"""Hints about one gradient before anything is tried: the framework's, the user's, and real calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.user_says import user_says
from gradcheck_cli.contract.recorded import RecordedCall
from gradcheck_cli.infer.recalled import recalled, unkept
from gradcheck_cli.inputs.parameters import expanded
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.project.intent_specs import Declared

_OUTDATED = (
    "its recorded calls",
    "they do not fit its parameters any more: run cgcheck record again",
)


@dataclass(frozen=True, slots=True)
class Opening:
    """What is known before anything is tried; `outcome` is about the user's own words."""

    hints: Hints
    intents: Sequence[Declared]
    outcome: GradientOutcome


def opening(request: Request) -> Opening:
    """The framework's hints, the user's specifications and intents, and calls that were really made."""
    gradient = request.gradient
    statement = user_says(request.framework.hints(gradient), gradient, request.task, request.site)
    outcome = GradientOutcome(findings=tuple(statement.findings))
    hints = statement.hints
    if not hints.specs:  # what the user says of the inputs is stronger than calls
        recorded = _recorded(request)
        fitting = _recalled(request, hints)
        if recorded and not fitting:
            outcome += GradientOutcome(left_out=(_unused(recorded),))
        hints = replace(hints, calls=[*request.calls, *fitting])
    return Opening(hints, statement.intents, outcome)


def _unused(recorded: Sequence[RecordedCall]) -> tuple[str, str]:
    """Why recorded calls cannot be used: nothing can write down what they hold, or they are of an older text."""
    kind = next(filter(None, map(unkept, recorded)), "")
    if not kind:
        return _OUTDATED
    return "its recorded calls", f"they hold a `{kind}`, which cannot be stored"


def _recorded(request: Request) -> Sequence[RecordedCall]:
    """The recorded calls of the gradient; what a factory made is recorded by its definition."""
    place, calls = request.gradient.place, request.task.calls
    return calls.get(place.qualname) or calls.get(place.definition, [])


def _recalled(request: Request, hints: Hints) -> list[Signature]:
    """Recorded calls as signatures, if the parameters are still those."""
    gradient = request.gradient
    signatures = (
        recalled(call, expanded(gradient.parameters(), len(call.arguments)), hints)
        for call in _recorded(request)
    )
    return [signature for signature in signatures if signature is not None]
