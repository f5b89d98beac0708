"""What could not be checked: the whole gradient, laws, parts, probes; each with why, and what to add."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.invented import MADE_UP
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import NotCovered, Outcome
from gradcheck_cli.infer.comment_to_add import comment_to_add

_A_RUN = "a run that calls it: `cgcheck record -- COMMAND`"
_UNMOVED = "the rule itself"
_SHOWS_NOTHING = "its values are the same at every input that was tried, so that nothing shows"


def reason(outcome: GradientOutcome) -> str:
    """Why the gradient could not be checked."""
    return outcome.reasons[0] if outcome.reasons else "no inputs were found"


def not_covered(request: Request, start: Opening, outcome: GradientOutcome) -> Iterator[NotCovered]:
    """What could not be checked: the whole gradient, single laws, parts of it, single probes."""
    name = request.gradient.place.qualname
    if not outcome.checked:
        line = None if outcome.beyond_inputs or outcome.late else _line_to_add(request, start)
        yield NotCovered.whole(name, reason(outcome), line)
    elif outcome.stands_still and not outcome.is_wrong:
        yield NotCovered(
            gradient=name,
            law=None,
            what=_UNMOVED,
            reason=_SHOWS_NOTHING,
            add=_line_to_add(request, start),
        )
    for law in outcome.laws:
        if law.outcome is Outcome.NOT_COVERED:
            what, why = f"the law {law.law}", law.reason or ""
            add = _with_ones_own(request, why) if law.law == "formula" else None
            yield NotCovered(gradient=name, law=law.law, what=what, reason=why, add=add)
    for what, why in dict.fromkeys(outcome.left_out):
        add = _with_ones_own(request, why)
        yield NotCovered(gradient=name, law=None, what=what, reason=why, add=add)
    if outcome.undecided:
        why = "the truth there could not be enclosed within the limits of precision and cost"
        what = f"{outcome.undecided} of {outcome.points} probes"
        yield NotCovered(gradient=name, law=None, what=what, reason=why)


def _with_ones_own(request: Request, why: str) -> str | None:
    """How to judge what rests on a function of ours; what a factory was given is said of the factory."""
    return _A_RUN if why.endswith(MADE_UP) and not request.gradient.place.invented else None


def _line_to_add(request: Request, start: Opening) -> str:
    """The comment that says what its arguments are; where none can, a run that calls it."""
    if start.hints.specs:
        return f"other shapes in {start.hints.spec_source}: it refuses those that stand there"
    comment = comment_to_add(request.gradient.parameters(), start.hints)
    if comment:
        return f"`# cgcheck: {comment}` above its definition, with the shapes that it takes"
    return _A_RUN
