"""Errors at numbers that an argument does not have by its name, where the rule is right at those that it has: they are notes.

A porosity of 2 leads a solver astray, and a length below zero slips through a guard. Unless a text
speaks of such numbers, or the function itself asks on which side of them it is, nobody means them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.moved_aside import moved_aside, notes_of
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Severity, Verdict
from gradcheck_cli.infer.natural import natural
from gradcheck_cli.inputs.quantities import Quantity
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.unnatural import far_off
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import Subject


def unless_unnatural(
    request: Request,
    start: Opening,
    subject: Subject,
    found: GradientOutcome,
    earlier: Sequence[Failure],
) -> GradientOutcome:
    """What was found at the subject, as notes beside what is found at numbers that its quantities have, if the formula is right there."""
    quantities = _far_off(found) if found.is_wrong and not start.hints.speaks_beyond else {}
    there = natural(request.gradient, subject, quantities) if quantities else None
    if there is None:
        return found
    told = [*earlier, *notes_of(found)]
    elsewhere = sum(attempt(request, there, start.intents, told), GradientOutcome())
    if elsewhere.formula_holds:
        return elsewhere + moved_aside(found, earlier, _why(quantities))
    return found


def _far_off(found: GradientOutcome) -> Mapping[str, Quantity]:
    """The quantities that have other numbers wherever the formula is wrong, and nothing else is."""
    errors = [f for f in found.failures if f.severity is Severity.ERROR]
    wrong = [f for f in errors if find(f.rule).verdict is Verdict.WRONG]
    of_formula = all(f.ground.kind is Kind.FORMULA and not f.everywhere for f in wrong)
    if len(found.trials) != 1 or not of_formula:
        return {}
    return far_off(found.trials[0].m, [f.row for f in wrong])


def _why(quantities: Mapping[str, Quantity]) -> str:
    """At which numbers it was found, and what to write if these are meant."""
    others = " or ".join(f"`{path}` is {q.otherwise}" for path, q in quantities.items())
    why = f"only where {others}, of which nothing speaks; elsewhere it is right"
    plain = [path for path in quantities if path.isidentifier()]
    lines = ", ".join(f"expect(domain: {path} in [-10, 10])" for path in plain)
    return f"{why} (if it is meant: `# cgcheck: {lines}`)" if lines else why
