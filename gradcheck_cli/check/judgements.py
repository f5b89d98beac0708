"""The judgements of all laws on one subject, with what the user declares of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.check.asked_laws import judgements_of_laws
from gradcheck_cli.check.outcome import JUDGED, GradientOutcome, weakest
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import LawResult, Outcome, Severity, Verdict
from gradcheck_cli.judge.laws.law import Judgement
from gradcheck_cli.judge.repair.trial import Trial
from gradcheck_cli.judge.unexplained import unexplained
from gradcheck_cli.judge.unjudged import failed
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.project.rule_pages import find


@dataclass(frozen=True, slots=True)
class Judgements:
    """What violates the laws, and what is left of that beside the declarations."""

    m: Measurements
    failures: Sequence[Failure]
    undeclared: Sequence[Failure]
    outcome: GradientOutcome

    @property
    def has_error(self) -> bool:
        """Is an error among the failures, declared or not?"""
        return any(f.severity is Severity.ERROR for f in self.failures)

    @property
    def approximates(self) -> bool:
        """Is the formula of some argument off by so little that it may be meant?"""
        return any(f.ground.kind is Kind.APPROXIMATE for f in self.undeclared)

    @property
    def has_wrong_formula(self) -> bool:
        """Is an error of the formula, or of how it takes the cotangent, among them?"""
        errors = (f for f in self.failures if f.severity is Severity.ERROR)
        return any(f.ground.kind in (Kind.FORMULA, Kind.LINEARITY) for f in errors)

    @property
    def is_wrong(self) -> bool:
        """Is the rule itself wrong, not only its floats?"""
        errors = (f for f in self.failures if f.severity is Severity.ERROR)
        return any(find(f.rule).verdict is Verdict.WRONG for f in errors)


def judgements(request: Request, m: Measurements, intents: Sequence[Declared]) -> Judgements:
    """All laws are asked; what is declared answers for some of the failures."""
    results = list(judgements_of_laws(request, m))
    judged = [result for result in results if isinstance(result, Judgement)]
    bugs = [
        failed(request.gradient, request.site, m.subject, result)
        for result in results
        if isinstance(result, Exception)
    ]
    failures = [failure for each in judged for failure in each.failures]
    undeclared, declarations = unexplained(failures, m, intents)
    wrong = [f.row for f in undeclared if _is_correctable(f)]
    outcome = GradientOutcome(
        findings=tuple(bugs),
        laws=tuple(_law_result(_as_declared(each, undeclared), m) for each in judged),
        trials=(Trial(m, wrong),),
        answered=frozenset(declarations.used),
        broken=frozenset(declarations.broken),
    )
    return Judgements(m, failures, undeclared, outcome)


def _is_correctable(failure: Failure) -> bool:
    """Would the function's own derivative be right? That of a step is 0, and not what is meant."""
    return find(failure.rule).correctable and failure.ground.kind is not Kind.PASSED_IN_PART


def _as_declared(each: Judgement, undeclared: Sequence[Failure]) -> Judgement:
    """A law of which only declared deviations failed holds."""
    left = [f for f in each.failures if f in undeclared and f.severity is not Severity.NOTE]
    in_part = any(f.ground.kind is Kind.PASSED_IN_PART for f in undeclared)
    wrong = in_part and any(f.ground.kind is Kind.SURROGATE for f in each.failures)
    if each.outcome is not Outcome.FAIL or left or wrong:
        return each
    doubt = next((f for f in undeclared if f.ground.kind is Kind.DOUBT), None)
    if doubt is not None:
        return dataclasses.replace(each, outcome=Outcome.NOT_COVERED, reason=doubt.message)
    return dataclasses.replace(
        each, outcome=Outcome.PASS, reason="every deviation is declared, or one that is meant"
    )


def _law_result(each: Judgement, m: Measurements) -> LawResult:
    return LawResult(
        law=each.law,
        outcome=each.outcome,
        evidence=weakest((each.evidence, m.evidence)) if each.outcome in JUDGED else None,
        points=each.points,
        reason=each.reason,
    )
