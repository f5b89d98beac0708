"""What is wrong with a formula? Over the reals a hypothesis either fits exactly or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.judge.diagnose.branches import wrong_choice
from gradcheck_cli.judge.diagnose.case import Array, Case, Elsewhere, Hypothesis, Rearranged, fits
from gradcheck_cli.judge.diagnose.cotangents import cotangents
from gradcheck_cli.judge.diagnose.elsewhere import truth_elsewhere
from gradcheck_cli.judge.diagnose.parts import parts
from gradcheck_cli.judge.diagnose.rearranged import rearranged
from gradcheck_cli.judge.diagnose.residuals import residuals
from gradcheck_cli.judge.diagnose.slots import slots
from gradcheck_cli.judge.diagnose.telling_rows import case_at, telling_rows
from gradcheck_cli.judge.diagnose.terms import terms
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.enclose import START_BITS, working

# The simplest explanation first.
HYPOTHESES: tuple[Hypothesis, ...] = (slots, rearranged, cotangents, residuals)
_WRONG, _REST = 5, 3  # rows of each kind that are looked at


def explain(m: Measurements, leaf: int, wrong: Sequence[int], rest: Sequence[int]) -> str | None:
    """The first hypothesis that gives the formula at rows where it is wrong, and where it is not."""
    assert m.rule is not None
    if m.in_part or m.dear:
        return None  # only some components are known, or each row is dear
    telling = telling_rows(m, wrong, _WRONG)
    if not telling:
        return None
    rows = np.array([*telling, *telling_rows(m, rest, _REST)], int)
    case = case_at(m, leaf, rows)
    formula, truth = m.rule.gradients[leaf][rows], case.truth[leaf]
    ideas = [idea for hypothesis in HYPOTHESES for idea in hypothesis(case)]
    for idea in ideas:
        if isinstance(idea, Rearranged) and fits(idea.gradient, formula, truth):
            return idea.text
    elsewhere = [idea for idea in ideas if isinstance(idea, Elsewhere)]
    gradients = truth_elsewhere(m, leaf, elsewhere, len(rows))
    for idea, gradient in zip(elsewhere, gradients, strict=True):
        if fits(gradient, formula, truth):
            return idea.text
    return _by_choice(m, leaf, telling) or _by_parts(m, case, formula, rows)


def _by_choice(m: Measurements, leaf: int, rows: list[int]) -> str | None:
    """Where it is wrong, the other branch of a `where` may be right."""
    program = m.subject.traces().rule
    if program is None or not m.sources.over_reals:
        return None
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    return wrong_choice(program, len(m.cotangents) + leaf, args, m.truth.gradients[leaf][rows])


def _by_parts(m: Measurements, case: Case, formula: Array, rows: Array) -> str | None:
    """The last idea: something that the truth is made of stands at the wrong place."""
    program = m.subject.traces().primal
    if program is None or not m.sources.over_reals:
        return None
    args = [a[rows] for a in (*m.points, *m.cotangents)]
    steps = parts(program, case.names, args)
    with working(START_BITS):
        for idea in terms(case, steps):
            if fits(idea.gradient, formula, case.truth[case.leaf]):
                return idea.text
    return None
