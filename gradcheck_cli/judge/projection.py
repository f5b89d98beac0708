"""Rules that give the gradient without its part along the argument: of what moves on a sphere (SEMANTICS G).

A slip of a formula hardly takes exactly that part away, and leaves the rest: quaternions and directions are
differentiated so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import argument_of
from gradcheck_cli.judge.intents.manifold import MANIFOLD, takes_what_points_outwards
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements


def as_projected(failures: Sequence[Failure], m: Measurements) -> list[Failure]:
    """The failures, with a projected gradient as the deviation that it is."""
    return [_as_projected(failure, m) for failure in failures]


def _as_projected(failure: Failure, m: Measurements) -> Failure:
    is_error = failure.severity is Severity.ERROR and m.rule is not None
    if not is_error or failure.rule != RuleName.GRADIENT_MISMATCH:
        return failure
    argument = argument_of(m, failure.component)
    if not takes_what_points_outwards(m, argument):
        return failure
    return replace(
        failure,
        rule=RuleName.UNDECLARED_DEVIATION,
        severity=Severity.WARNING,
        ground=Ground(Kind.DEVIATION, MANIFOLD.name),
        message=f"the rule gives the gradient of `{argument}` without its part along `{argument}`, "
        "as for what moves on a sphere",
        expect=f"expect({MANIFOLD.name}: {argument})",
        everywhere=True,
        holds=None,
        as_grave=None,
    )
