"""Grades of what the framework computed, each made once per measurement.

Where the formula itself is wrong, its floats are graded against the formula:
being unstable is another fault than being wrong.
"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES, Grades, Reference
from gradcheck_cli.measure.engine import Measurements
from gradcheck_cli.measure.formula import comparison

VALUE, CUSTOM, AUTO = "value", "custom", "auto"


def grades(m: Measurements, mode: str, who: str) -> Grades:
    """Grades of the value, of the rule's gradient or of autodiff's in a mode."""
    key = ("grades", mode, who)
    if key not in m.cache:
        m.cache[key] = _grade(m, mode, who)
    found: Grades = m.cache[key]
    return found


def _grade(m: Measurements, mode: str, who: str) -> Grades:
    floats = m.floats[mode]
    if who == VALUE:
        return m.reference.grade(floats.rule_value, VALUES)
    arrays = (floats.custom if who == CUSTOM else floats.auto) or []
    against_truth = m.reference.grade(arrays, GRADIENTS)
    program = m.subject.traces().rule
    if who == AUTO or m.rule is None or program is None:
        return against_truth
    facts = comparison(m)
    wrong = facts.differs.any(axis=1)
    if not wrong.any():
        return against_truth
    formula = Reference(program, m.fmt, m.points, m.cotangents, m.rule, m.seed)
    against_formula = formula.grade(arrays, GRADIENTS)
    return Grades(
        *(
            np.where(wrong, getattr(against_formula, name), getattr(against_truth, name))
            for name in ("severity", "cause", "component", "bits")
        )
    )
