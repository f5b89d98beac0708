"""Rules that keep some elements of an argument as they are, and say so: a padding row that gets no gradient.

All else must be the derivative of the function; so what is meant is known (SEMANTICS G).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.deviation import is_of_formula
from gradcheck_cli.judge.intents.intent import argument_of, common_cells, formula
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements


def as_frozen(failures: Sequence[Failure], m: Measurements, words: str) -> list[Failure]:
    """The failures, with those of such a rule as the deviation that it is; `words` are what its text says of that."""
    wrong = [f for f in failures if is_of_formula(f)]
    if not wrong or not words or m.rule is None or m.in_part:
        return list(failures)
    frozen = _frozen(m)
    if not frozen:
        return list(failures)
    names = ", ".join(dict.fromkeys(argument_of(m, component) for component in frozen))
    told = replace(
        wrong[0],
        rule=RuleName.UNDECLARED_DEVIATION,
        severity=Severity.NOTE,
        ground=Ground(Kind.DEVIATION, "frozen"),
        message=f"the rule gives zero for some elements of {names} and the derivative for all else, "
        f"as its name or its text says (“{words}”)",
        expect=None,
        everywhere=True,
        holds=None,
        as_grave=None,
    )
    return [told if f is wrong[0] else f for f in failures if f is wrong[0] or f not in wrong]


def _frozen(m: Measurements) -> list[int]:
    """The components for which the rule gives nothing, if it is right for all others; none if it is not.

    An argument that gets nothing at all is forgotten, not frozen in part.
    """
    ours, truth = formula(m), m.reference.balls(GRADIENTS)
    count = truth.shape[1]
    apart, silent, moves = np.zeros(count, bool), np.ones(count, bool), np.zeros(count, bool)
    for cell in common_cells(m):
        component = cell[1]
        apart[component] |= not ours[cell].overlaps(truth[cell])
        silent[component] &= bool(ours[cell] == 0)
        moves[component] |= bool(truth[cell] != 0)
    frozen = np.flatnonzero(apart).tolist()
    alive = {argument_of(m, k) for k in np.flatnonzero(moves & ~apart).tolist()}
    right = not (apart & ~silent).any() and all(argument_of(m, k) in alive for k in frozen)
    return frozen if right else []
