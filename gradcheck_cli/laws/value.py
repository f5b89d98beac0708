"""The value that the rule's forward pass returns is the primal's, over the reals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.inputs.cotangents import BASE
from gradcheck_cli.laws.law import Failure, Judgement, judged
from gradcheck_cli.measure.accuracy import VALUES, as_floats, columns
from gradcheck_cli.measure.engine import Measurements, Probe
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.words import Outcome, Severity

_ROUNDING_EPS = 4


@dataclass(frozen=True, slots=True)
class Value:
    name: str = "value"

    def plan(self, points: int, outputs: Sequence[tuple[int, ...]]) -> list[Probe]:
        return [Probe(i, BASE) for i in range(points)]

    def judge(self, m: Measurements) -> Judgement:
        if m.subject.traces().rule is None:
            return Judgement(self.name, Outcome.NOT_APPLICABLE, reason="there is no custom rule")
        if m.rule is None:
            return Judgement(self.name, Outcome.NOT_COVERED, reason=m.rule_missing)
        rows = m.base_rows()
        truth, states = m.reference.balls(VALUES), m.reference.states(VALUES)
        forward = columns(m.rule.values, m.count)
        forward_states = columns(m.rule.value_states, m.count)
        # A kink of the value is a jump: there either side is right.
        for row in rows:
            for k in range(truth.shape[1]):
                ours, theirs = truth[row, k], forward[row, k]
                if states[row, k] not in (REGULAR, LIMIT) or forward_states[row, k] not in (REGULAR, LIMIT):
                    continue
                if not ours.overlaps(theirs) and _matters(m, int(row), ours, theirs):
                    failure = Failure(
                        "value-mismatch", Severity.ERROR, int(row), VALUES, k, "value",
                        "the rule's forward pass returns a different value than the function itself",
                    )  # fmt: skip
                    return judged(self.name, len(rows), [failure])
        return judged(self.name, len(rows), [])


def _matters(m: Measurements, row: int, ours: object, theirs: object) -> bool:
    """More than the rounding of a constant, at the local scale."""
    gap, size = as_floats(np.array([ours - theirs, ours], object))  # type: ignore[operator]
    scale = max(float(m.reference.scale(np.array([row]), VALUES)[0]), abs(float(size)))
    return bool(abs(gap) > _ROUNDING_EPS * m.fmt.eps * scale)


VALUE = Value()
