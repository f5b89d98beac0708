"""The author's formula equals the derivative of the primal, over the reals, for each argument."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Evidence, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import BASE, one_hot_names
from gradcheck_cli.judge.diagnose.constant_factor import describe_factor
from gradcheck_cli.judge.diagnose.explain import explain
from gradcheck_cli.judge.laws.law import Judgement, Reason, judged, over_the_reals
from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.engine import Measurements, Probe
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.formula_gap import ROUNDING_EPS, Comparison, comparison, only_at_points
from gradcheck_cli.measure.integral import Opinion, third_opinion
from gradcheck_cli.measure.states import LIMIT, REGULAR

Array = np.ndarray[Any, Any]

_ONE_HOT_POINTS = 6
_OPINIONS = 3
_RADIUS = 1e-3


@dataclass(frozen=True, slots=True)
class Formula:
    name: str = "formula"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        """The base cotangent everywhere, one-hot ones at the first points."""
        probes = [Probe(i, BASE) for i in range(points)]
        names = one_hot_names(outputs, 6)
        if len(names) > 1:
            probes += [Probe(i, n) for i in range(min(points, _ONE_HOT_POINTS)) for n in names]
        return probes

    def applicable(self, m: Measurements) -> Reason | None:
        return over_the_reals(m)

    def judge(self, m: Measurements) -> Judgement:
        facts = comparison(m)
        failures = [*_mismatches(m, facts), *_trusted(m, facts), *_singularities(m, facts)]
        right_by_integral = any(f.cause.startswith(_BY_INTEGRAL) for f in failures)
        failures = [f for f in failures if not f.cause.startswith(_BY_INTEGRAL)]
        result = judged(self.name, len(facts.rows), failures)
        if right_by_integral:
            return Judgement(
                self.name, result.outcome, result.points, result.failures,
                "judged by the integral of the rule: autodiff differentiates the program here, not the function",
                evidence=Evidence.MULTIPRECISION,
            )  # fmt: skip
        return result


_BY_INTEGRAL = "right by the integral of the rule"


def _mismatches(m: Measurements, facts: Comparison) -> Iterator[Failure]:
    """One failure for each argument whose formula is apart from the truth."""
    start = 0
    for _, elements in m.components(GRADIENTS):
        part = slice(start, start + len(elements))
        start += len(elements)
        gap = np.where(facts.differs[:, part], facts.gap[:, part], 0.0)
        worst = gap.max(axis=1, initial=0.0)
        if worst.max(initial=0.0) > ROUNDING_EPS * m.fmt.eps:
            yield from _mismatch(m, facts, part, worst, gap)


def _mismatch(
    m: Measurements, facts: Comparison, part: slice, worst: Array, gap: Array
) -> Iterator[Failure]:
    big = np.flatnonzero(worst > math.sqrt(m.fmt.eps))
    states = m.reference.states(GRADIENTS)[big, part]
    limits = (states == LIMIT).any(axis=1)
    surrogate = bool(facts.zero_truth[part].all())
    alone = len(big) and not surrogate and not m.dear
    if alone and (limits.all() or only_at_points(m, big[~limits], part)):
        # Points of measure zero: the nudge has spoken, the integral cannot (SEMANTICS E, F).
        points = big
        yield _failure(
            m, facts, part, int(points[0]), gap, RuleName.GRADIENT_MISMATCH, Severity.ERROR, "formula",
            "the formula is wrong at a point: on all sides of it the derivative tends to another number",
            everywhere=True,
        )  # fmt: skip
        return
    if not len(big):
        row = int(worst.argmax())
        third = third_opinion(m, row)
        if third is not None and third.settles:
            yield _failure(
                m, facts, part, row, gap, RuleName.APPROXIMATE_RULE, Severity.NOTE, _BY_INTEGRAL, ""
            )
            return
        yield _failure(
            m, facts, part, row, gap, RuleName.APPROXIMATE_RULE, Severity.WARNING, "approximate",
            f"the formula is an approximation: off by up to {_size(worst.max())} of the gradient's scale",
        )  # fmt: skip
        return
    radius = _radius_around_singularities(m, facts, big)
    row = int(big[0])
    if radius is not None:
        yield _failure(
            m, facts, part, row, gap, RuleName.SAFE_AT_SINGULARITY, Severity.NOTE, "singularity",
            f"the formula leaves the truth only within {radius:.1e} of a singularity",
        )  # fmt: skip
        return
    opinion = _opinions(m, facts, big)
    if surrogate and opinion is not Opinion.RIGHT:  # not a bisection either: a step function
        opinion = Opinion.STEP
    if opinion is Opinion.STEP:
        yield _failure(
            m, facts, part, row, gap, RuleName.UNDECLARED_SURROGATE, Severity.WARNING, "surrogate",
            "the derivative of the primal is zero everywhere, the rule's is not: a surrogate gradient "
            "(straight-through, or a smoothed step)",
        )  # fmt: skip
    elif opinion is Opinion.RIGHT:
        yield _failure(
            m, facts, part, row, gap, RuleName.GRADIENT_MISMATCH, Severity.NOTE, _BY_INTEGRAL, ""
        )
    elif opinion is Opinion.OPEN:
        yield _failure(
            m, facts, part, row, gap, RuleName.INCONCLUSIVE_GRADIENT, Severity.WARNING, "inconclusive",
            "the formula differs from autodiff through the primal, and the integral of the rule could "
            "not decide which of them is right",
        )  # fmt: skip
    else:
        everywhere = bool(facts.differs[facts.rows, part].any(axis=1).mean() > 0.9)
        yield _failure(
            m, facts, part, row, gap, RuleName.GRADIENT_MISMATCH, Severity.ERROR, "formula",
            _wrong_message(m, facts, part, row, everywhere), everywhere,
        )  # fmt: skip


def _wrong_message(
    m: Measurements, facts: Comparison, part: slice, row: int, everywhere: bool
) -> str:
    assert m.rule is not None
    truth, formula = m.reference.balls(GRADIENTS), columns(m.rule.gradients, m.count)
    rows = [r for r in facts.rows if m.reference.states(GRADIENTS)[r, part].max(initial=0) == 0]
    said = describe_factor(
        [t for r in rows for t in truth[r, part]], [f for r in rows for f in formula[r, part]]
    )
    plain = next(iter(m.floats.values())).custom is None
    wrong = "the custom rules that it calls make it wrong" if plain else "the formula is wrong"
    if said is None:
        leaf, _ = component_name(m, GRADIENTS, part.start)
        differs = np.asarray(facts.differs[:, part].any(axis=1))
        said = explain(
            m, leaf, [r for r in rows if differs[r]], [r for r in rows if not differs[r]]
        )
    if said:
        return f"{wrong}: {said}"
    return wrong + ("" if everywhere else " at some inputs")


def _failure(
    m: Measurements, facts: Comparison, part: slice, row: int, gap: Array, rule: RuleName,
    severity: Severity, cause: str, message: str, everywhere: bool = False,
) -> Failure:  # fmt: skip
    component = part.start + int(gap[row].argmax())
    leaf, _ = component_name(m, GRADIENTS, component)
    name = m.subject.leaves[leaf].path
    many = len(m.subject.leaves) > 1

    along = severity is Severity.ERROR and not everywhere

    def holds(other: Measurements) -> Array:
        return np.asarray(comparison(other).differs[:, component])

    def matters(other: Measurements) -> Array:
        return np.asarray(comparison(other).gap[:, component] > math.sqrt(other.fmt.eps))

    return Failure(
        rule=rule, severity=severity, row=row, what=GRADIENTS, component=component,
        cause=f"{cause} {name}" if many else cause,
        message=f"d/d{name}: {message}" if many else message,
        holds=holds if along else None, as_grave=matters if along else None, everywhere=everywhere,
    )  # fmt: skip


def _trusted(m: Measurements, facts: Comparison) -> Iterator[Failure]:
    """The rule agrees with autodiff only if the inner rules are right."""
    rows = np.flatnonzero(facts.trusts.any(axis=1))
    if len(rows):
        row = int(rows[0])
        yield Failure(
            RuleName.TRUSTS_INNER_RULE, Severity.NOTE, row, GRADIENTS, int(facts.trusts[row].argmax()), "inner",
            "the formula is what autodiff gives if the inner custom rules are taken at their word; "
            "each of those is judged on its own",
        )  # fmt: skip


def _singularities(m: Measurements, facts: Comparison) -> Iterator[Failure]:
    """A number where the truth has a pole, or a value beside both sides of a kink: worth a note."""
    poles = np.flatnonzero(facts.finite_at_pole.any(axis=1))
    if len(poles):
        row = int(poles[0])
        component = int(facts.finite_at_pole[row].argmax())
        yield Failure(
            RuleName.SAFE_AT_SINGULARITY, Severity.NOTE, row, GRADIENTS, component, "pole",
            "the truth has a pole, the rule gives a number",
        )  # fmt: skip
    outside = np.flatnonzero(facts.outside_kink)
    if len(outside):
        row = int(outside[0])
        yield Failure(
            RuleName.SAFE_AT_SINGULARITY, Severity.NOTE, row, GRADIENTS, 0, "kink",
            "at a kink of the primal, the rule is not between the derivatives of the two sides",
        )  # fmt: skip


def _radius_around_singularities(m: Measurements, facts: Comparison, rows: Array) -> float | None:
    """The distance from poles and kinks within which all these rows lie, if it is small."""
    singular = np.flatnonzero(facts.singular)
    if not len(singular):
        return None
    x = columns(m.points, m.count)
    apart = np.abs(x[rows][:, None] - x[singular][None])
    joint = apart.max(axis=2).min(axis=1)
    # Where each element has singularities of its own, its own distance counts.
    own = np.where(facts.singular_at[singular][None], apart, np.inf).min(axis=1)
    alone = np.where(facts.differs[rows], own, 0.0).max(axis=1)
    radius = float(np.minimum(joint, alone).max())
    return radius if 0 < radius <= _RADIUS else None


def _opinions(m: Measurements, facts: Comparison, rows: Array) -> Opinion:
    """The third opinion at a few plain rows: wrong if it is so at any of them."""
    opinions: set[Opinion] = set()
    x = columns(m.points, m.count)
    size = np.abs(x).max(axis=1)
    states = np.concatenate([m.reference.states(VALUES), m.reference.states(GRADIENTS)], axis=1)
    # One element outside would hide the rest.
    inside: Array = np.asarray(np.isin(states, (REGULAR, LIMIT)).all(axis=1))
    plain = sorted(rows.tolist(), key=lambda r: (not inside[r], not 1e-2 <= size[r] <= 1e2, r))
    for row in plain[:_OPINIONS]:
        third = third_opinion(m, row)
        if third is not None:
            opinions.add(third.opinion)
    gravest_first = (Opinion.WRONG, Opinion.STEP, Opinion.OPEN, Opinion.RIGHT)
    return next((opinion for opinion in gravest_first if opinion in opinions), Opinion.OPEN)


def _size(value: float) -> str:
    return f"{value:.1e}"


FORMULA = Formula()
