"""The rule is linear in the cotangent: R(x, a + b) = R(x, a) + R(x, b), R(x, c·a) = c·R(x, a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb

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
        assert m.rule is not None
        gradients = columns(m.rule.gradients, m.count)
        regular = columns(m.rule.gradient_states, m.count) == REGULAR
        checked = 0
        for point in sorted({p.point for p in m.probes if p.cotangent == SUM}):
            rows = {name: m.row(Probe(point, name)) for name in _ASKED}
            if any(row is None for row in rows.values()):
                continue
            checked += 1
            for name, message in _CHECKS.items():
                known = regular[[rows[BASE], rows[OTHER], rows[name]]].all(axis=0)
                at = {k: gradients[v] for k, v in rows.items()}
                broken = _broken(name, at, np.flatnonzero(known))
                if broken is not None:
                    row = rows[name]
                    assert row is not None
                    failure = Failure(
                        RuleName.NONLINEAR_COTANGENT, Severity.ERROR, row, GRADIENTS, broken,
                        Ground(Kind.LINEARITY), message, everywhere=True,
                    )  # fmt: skip
                    return judged(self.name, checked, [failure])
        return judged(self.name, checked, [])


_CHECKS = {
    ZERO: "a zero cotangent gives a gradient that is not zero: a term does not use the cotangent",
    SUM: "the rule is not linear in the cotangent: R(a + b) is not R(a) + R(b)",
    NEGATED: "the rule is not linear in the cotangent: R(-a) is not -R(a)",
    HUGE: "the rule is not linear in the cotangent: a cotangent 2²⁰ times as large does not give "
    "2²⁰ times the gradient (clipped, normalised or squared?)",
    TINY: "the rule is not linear in the cotangent: a cotangent 2⁻²⁰ times as large does not give "
    "2⁻²⁰ times the gradient (clipped, normalised or squared?)",
}


def _broken(name: str, at: dict[str, Any], known: Any) -> int | None:
    """The first component where this form of linearity fails, certified by disjoint balls.

    Only components that no nudge replaced: the sides of a kink are not linear.
    """
    with working(_BITS):
        for k in known.tolist():
            base, other, got = at[BASE][k], at[OTHER][k], at[name][k]
            expected = {
                ZERO: arb(0),
                SUM: base + other,
                NEGATED: -base,
                HUGE: base * HUGE_FACTOR,
                TINY: base * TINY_FACTOR,
            }[name]
            if expected.is_finite() and got.is_finite() and not expected.overlaps(got):
                return int(k)
    return None


LINEARITY = Linearity()
