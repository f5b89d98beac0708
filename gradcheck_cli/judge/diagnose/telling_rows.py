"""The few rows at which hypotheses about a wrong formula are tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from gradcheck_cli.judge.diagnose.case import Array, Case
from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR

_HUGE = 100.0


def telling_rows(m: Measurements, rows: Sequence[int], most: int) -> list[int]:
    """Ordinary rows where everything is known, of as many different cotangents as there are."""
    assert m.rule is not None
    regular = (m.reference.states(GRADIENTS) == REGULAR).all(axis=1)
    regular &= (columns(m.rule.gradient_states, m.count) == REGULAR).all(axis=1)
    regular &= (m.reference.states(VALUES) == REGULAR).all(axis=1)
    values = columns(m.points, m.count)
    sizes = np.abs(values).max(axis=1, initial=0)
    special = np.isin(values, (0.0, 1.0, -1.0)).sum(axis=1)
    special += [len(row) - len(set(row)) for row in values.tolist()]
    turns: Counter[str] = Counter()
    order = []
    # At 0 and 1, and where numbers are equal, many formulas are one.
    plain_first = sorted(
        (r for r in rows if regular[r]), key=lambda r: (special[r], sizes[r] > _HUGE, r)
    )
    for row in plain_first:
        name = m.probes[row].cotangent
        order.append((turns[name], row))  # one of each first
        turns[name] += 1
    return [row for _, row in sorted(order)[:most]]


def case_at(m: Measurements, leaf: int, rows: Array) -> Case:
    """Inputs, cotangents and truth at these rows."""
    return Case(
        leaf,
        [v.path for v in m.subject.leaves],
        [p[rows] for p in m.points],
        [c[rows] for c in m.cotangents],
        [g[rows] for g in m.truth.gradients],
        [v[rows] for v in m.truth.values],
    )
