"""Formulas that leave the truth only where an argument is what its name says that it never is: a load below zero."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.judge.laws.mismatch import Mismatch
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.moved import moved_to
from gradcheck_cli.measure.unmet import naturally, why_unnatural

_ASKED = 4  # rows that are measured again
_OPEN = "the formula leaves the truth only where {}: state that as a domain if it never is"


def unless_unnatural(failure: Failure | None, mismatch: Mismatch) -> Failure | None:
    """The failure; an open question where the formula is wrong at unnatural numbers, and right at natural ones beside."""
    if failure is None or failure.ground.kind is not Kind.FORMULA or mismatch.m.dear:
        return failure
    reasons = [why_unnatural(mismatch.m, row) for row in mismatch.large.tolist()]
    if not reasons or not all(reasons) or not _is_right_beside(mismatch):
        return failure
    message = _OPEN.format(reasons[0])
    return mismatch.failure(int(mismatch.large[0]), Kind.INCONCLUSIVE, message)


def _is_right_beside(mismatch: Mismatch) -> bool:
    """Does the formula agree with the truth at natural numbers in the place of those at which it does not?"""
    m, rows = mismatch.m, mismatch.large
    asked = rows[np.unique(np.linspace(0, len(rows) - 1, _ASKED).astype(int))].tolist()
    facts = comparison(moved_to(m, asked, naturally(m, asked)))
    return bool(facts.compared) and not facts.differs[:, mismatch.part].any()
