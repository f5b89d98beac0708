"""Rules that take each rounding of their function for the identity, and differentiate all else (SEMANTICS G).

Quantizers with a learned step are written so. The derivative that is meant is known: that of the function
with its steps passed, over the reals. A slip of a formula does not give it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import argument_of
from gradcheck_cli.judge.intents.straight_through import (
    STRAIGHT_THROUGH,
    passes_in_part,
    passes_steps,
)
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements

_ANSWERED = (RuleName.GRADIENT_MISMATCH, RuleName.UNDECLARED_SURROGATE)
_IN_PART = (
    "for some elements the rule is the derivative with each rounding of the function taken for the identity, for "
    "others it is something else: its formula is wrong there"
)


def as_passed_in_part(failures: Sequence[Failure], m: Measurements) -> list[Failure]:
    """The failures, with a surrogate as wrong that is straight-through at some elements, and at others another one."""
    return [_as_passed_in_part(failure, m) for failure in failures]


def _as_passed_in_part(failure: Failure, m: Measurements) -> Failure:
    if failure.rule != RuleName.UNDECLARED_SURROGATE or m.rule is None:
        return failure
    cell = passes_in_part(m, argument_of(m, failure.component))
    if cell is None:
        return failure
    return replace(
        failure,
        rule=RuleName.GRADIENT_MISMATCH,
        severity=Severity.ERROR,
        row=cell[0],
        component=cell[1],
        ground=replace(failure.ground, kind=Kind.PASSED_IN_PART),
        message=_IN_PART,
        help="write the derivative of all but the rounding, as it is at those elements",
        everywhere=True,
        expect=None,
    )


def as_passed(failures: Sequence[Failure], m: Measurements, visible: bool) -> list[Failure]:
    """The failures, with those of such a rule as the deviation that it is, told once."""
    passed = [f for f in failures if f.rule in _ANSWERED and m.rule is not None and _passes(f, m)]
    wrong = [f for f in passed if f.rule == RuleName.GRADIENT_MISMATCH]
    if not any(f.severity is Severity.ERROR for f in wrong):
        return list(failures)
    told = replace(
        wrong[0],
        rule=RuleName.UNDECLARED_DEVIATION,
        severity=Severity.NOTE if visible else Severity.WARNING,
        ground=Ground(Kind.DEVIATION, STRAIGHT_THROUGH.name),
        message="the rule takes each rounding of the function for the identity, and differentiates all else",
        expect=f"expect({STRAIGHT_THROUGH.name})",
        everywhere=True,
        holds=None,
        as_grave=None,
    )
    return [told if f is wrong[0] else f for f in failures if f is wrong[0] or f not in passed]


def _passes(failure: Failure, m: Measurements) -> bool:
    return passes_steps(m, argument_of(m, failure.component))
