"""The rule is linear in the cotangent: R(x, a + b) = R(x, a) + R(x, b), R(x, c·a) = c·R(x, a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

from gradcheck_cli.contract.limits import half_of_the_digits
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.cotangents import (
    BASE,
    HUGE,
    HUGE_FACTOR,
    NEGATED,
    OTHER,
    SUM,
    TINY,
    TINY_FACTOR,
    ZERO,
)
from gradcheck_cli.judge.laws.law import Judgement, Reason, judged, over_the_reals
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.facts import OPEN_LOOPS

Array = np.ndarray[Any, Any]

_POINTS = 14
_BITS = 256
_ASKED = (BASE, OTHER, SUM, ZERO, NEGATED, TINY, HUGE)


@dataclass(frozen=True, slots=True)
class Linearity:
    name: str = "linearity"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        """All cotangents at a few points: the plainest, and some spread over the rest."""
        chosen = sorted(
            {
                *range(min(points, _POINTS // 2)),
                *np.linspace(0, points - 1, _POINTS // 2, dtype=int).tolist(),
            }
        )
        return [Probe(i, name) for i in chosen for name in _ASKED]

    def applicable(self, m: Measurements) -> Reason | None:
        return over_the_reals(m)

    def judge(self, m: Measurements) -> Judgement:
        points = _rows_of_points(m)
        for checked, rows in enumerate(points, start=1):
            failure = _failure(m, rows)
            if failure is not None:
                return judged(self.name, checked, [failure])
        return judged(self.name, len(points), [])


def _rows_of_points(m: Measurements) -> list[dict[str, int]]:
    """For each point at which all cotangents were tried: the row of each of them."""
    points = []
    for point in sorted({p.point for p in m.probes if p.cotangent == SUM}):
        rows = {name: m.row(Probe(point, name)) for name in _ASKED}
        complete = {name: row for name, row in rows.items() if row is not None}
        if len(complete) == len(_ASKED):
            points.append(complete)
    return points


_CHECKS = {
    ZERO: "a zero cotangent gives a gradient that is not zero: a term does not use the cotangent",
    SUM: "the rule is not linear in the cotangent: R(a + b) is not R(a) + R(b)",
    NEGATED: "the rule is not linear in the cotangent: R(-a) is not -R(a)",
    HUGE: "the rule is not linear in the cotangent: a cotangent 2²⁰ times as large does not give "
    "2²⁰ times the gradient (clipped, normalised or squared?)",
    TINY: "the rule is not linear in the cotangent: a cotangent 2⁻²⁰ times as large does not give "
    "2⁻²⁰ times the gradient (clipped, normalised or squared?)",
}


_STOPPED = (
    "the iteration in the rule stops too early for small cotangents: one 2⁻²⁰ times as large does not "
    "give 2⁻²⁰ times the gradient (a tolerance that is not relative?)"
)


def _failure(m: Measurements, rows: dict[str, int]) -> Failure | None:
    """The first form of linearity that fails at a point.

    Only components that no nudge replaced are compared: the sides of a kink are not linear.
    """
    assert m.rule is not None
    gradients = columns(m.rule.gradients, m.count)
    regular = columns(m.rule.gradient_states, m.count) == REGULAR
    at = {name: gradients[row] for name, row in rows.items()}
    slack = _slack(m)
    for name, message in _CHECKS.items():
        compared = regular[[rows[BASE], rows[OTHER], rows[name]]].all(axis=0)
        component = _nonlinear(name, at, np.flatnonzero(compared), slack)
        if component is not None:
            stopped = bool(slack) and name == TINY
            return Failure(
                RuleName.NONLINEAR_COTANGENT, Severity.WARNING if stopped else Severity.ERROR,
                rows[name], GRADIENTS, component, Ground(Kind.LINEARITY),
                _STOPPED if stopped else message, everywhere=True,
            )  # fmt: skip
    return None


def _slack(m: Measurements) -> float:
    """How far from linear a rule may be beside its gradient: an iteration stops within its own tolerance."""
    program = m.subject.traces().rule
    if program is None or not program.primitives() & OPEN_LOOPS:
        return 0.0
    return half_of_the_digits(m.fmt.eps)


def _nonlinear(name: str, at: dict[str, Array], components: Array, slack: float) -> int | None:
    """The first component where this form of linearity fails, certified by disjoint balls."""
    with working(_BITS):
        for k in components.tolist():
            base, other, got = at[BASE][k], at[OTHER][k], at[name][k]
            expected = {
                ZERO: arb(0),
                SUM: base + other,
                NEGATED: -base,
                HUGE: base * HUGE_FACTOR,
                TINY: base * TINY_FACTOR,
            }[name]
            if not (expected.is_finite() and got.is_finite()) or expected.overlaps(got):
                continue
            if not abs(expected - got) <= slack * (abs(expected) + abs(got)):
                return int(k)
    return None


LINEARITY = Linearity()
