"""The author's formula equals the derivative of the primal, over the reals, for each argument."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.contract.report import Evidence, Outcome, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import one_hot_names
from gradcheck_cli.judge.laws.law import Judgement, Reason, base_probes, judged, over_the_reals
from gradcheck_cli.judge.laws.mismatch import mismatches, verdict
from gradcheck_cli.judge.laws.singularity import singularities, torn_at_ties
from gradcheck_cli.judge.laws.underivable import Underivable, underivable
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.formula_gap import Comparison, comparison
from gradcheck_cli.measure.measurements import Measurements, Probe

_ONE_HOT_POINTS = 6
_MOST_ONE_HOT = 6
_BY_INTEGRAL = (
    "judged by the integral of the rule: autodiff differentiates the program here, not the function"
)
_WITHOUT_AUTODIFF = "judged by the integral of the rule: autodiff through the primal has no derivative at any point that was tried"
_NOTHING_TO_COMPARE = "at no point that was tried has the gradient a value to compare with: all are kinks, poles or undecided"


@dataclass(frozen=True, slots=True)
class Formula:
    name: str = "formula"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        """The base cotangent everywhere, one-hot ones at the first points."""
        probes = base_probes(points)
        names = one_hot_names(outputs, _MOST_ONE_HOT)
        if len(names) > 1:
            probes += [Probe(i, n) for i in range(min(points, _ONE_HOT_POINTS)) for n in names]
        return probes

    def applicable(self, m: Measurements) -> Reason | None:
        return over_the_reals(m)

    def judge(self, m: Measurements) -> Judgement:
        facts = comparison(m)
        verdicts = [verdict(mismatch) for mismatch in mismatches(m, facts)]
        wrong = [failure for failure in verdicts if failure is not None]
        inner = m.subject.traces().inner
        without = list(underivable(m, facts))
        several = len(m.subject.leaves) > 1
        wrong += [each.failure(several) for each in without if each.is_wrong]
        torn_apart = () if wrong else torn_at_ties(m)
        failures = [*wrong, *torn_apart, *_trusting(facts, inner), *singularities(facts)]
        if not failures and not facts.compared and not without:
            return Judgement(self.name, Outcome.NOT_COVERED, reason=_NOTHING_TO_COMPARE)
        judgement = judged(self.name, len(facts.rows), failures)
        if not wrong and any(not each.is_right for each in without):
            return Judgement(self.name, Outcome.NOT_COVERED, reason=_no_derivative(without))
        if len(wrong) == len(verdicts) and not without:
            return judgement
        reason = _BY_INTEGRAL if len(wrong) < len(verdicts) else _WITHOUT_AUTODIFF
        return dataclasses.replace(judgement, reason=reason, evidence=Evidence.MULTIPRECISION)


def _no_derivative(without: Sequence[Underivable]) -> str:
    names = " and ".join(f"`{each.name}`" for each in without if not each.is_right)
    return (
        f"autodiff through the primal has no derivative along {names} at any point that was tried"
    )


def _trusting(facts: Comparison, inner: Sequence[str]) -> Iterator[Failure]:
    """A note where the rule agrees with autodiff only if the inner rules are right."""
    rows = np.flatnonzero(facts.trusts.any(axis=1))
    if len(rows):
        row = int(rows[0])
        named = [f"`{name}`" for name in inner]
        those = " and ".join(filter(None, [", ".join(named[:-1]), *named[-1:]]))
        those = f"the rule of {those}" if len(named) == 1 else f"the rules of {those}"
        yield Failure(
            RuleName.TRUSTS_INNER_RULE, Severity.NOTE, row, GRADIENTS,
            int(facts.trusts[row].argmax()), Ground(Kind.INNER_RULE),
            f"the formula is what autodiff gives if {those} is taken at its word" if len(named) == 1
            else f"the formula is what autodiff gives if {those} are taken at their word",
            trusts=tuple(inner),
        )  # fmt: skip


FORMULA = Formula()
