"""What is wrong with a formula? Over the reals a hypothesis either fits exactly or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.judge.diagnose.branches import wrong_choice
from gradcheck_cli.judge.diagnose.case import Case, Elsewhere, Hypothesis, Rearranged
from gradcheck_cli.judge.diagnose.cotangents import cotangents
from gradcheck_cli.judge.diagnose.parts import parts
from gradcheck_cli.judge.diagnose.rearranged import moved
from gradcheck_cli.judge.diagnose.residuals import residuals
from gradcheck_cli.judge.diagnose.slots import slots
from gradcheck_cli.judge.diagnose.terms import terms
from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.ball_truth import Ask
from gradcheck_cli.measure.engine import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.reals.enclose import START_BITS, working

Array = np.ndarray[Any, Any]

# The simplest explanation first.
HYPOTHESES: tuple[Hypothesis, ...] = (slots, moved, cotangents, residuals)
_WRONG, _REST = 5, 3  # rows of each kind that are looked at
_FEWEST_FITS = 3  # numbers that must agree, so that none does by chance


def explain(m: Measurements, leaf: int, wrong: Sequence[int], rest: Sequence[int]) -> str | None:
    """The first hypothesis that gives the formula at rows where it is wrong, and where it is not."""
    assert m.rule is not None
    if m.in_part or m.dear:
        return None  # only some components are known, or each row is dear
    chosen = np.array([*_plain(m, wrong, _WRONG), *_plain(m, rest, _REST)], int)
    if not _plain(m, wrong, 1):
        return None
    case = _case(m, leaf, chosen)
    formula = m.rule.gradients[leaf][chosen]
    ideas = [idea for hypothesis in HYPOTHESES for idea in hypothesis(case)]
    for idea in ideas:
        if isinstance(idea, Rearranged) and _fits(idea.gradient, formula, case.truth[leaf]):
            return idea.says
    elsewhere = [idea for idea in ideas if isinstance(idea, Elsewhere)]
    found = _evaluated(m, leaf, elsewhere, len(chosen))
    for idea, gradient in zip(elsewhere, found, strict=True):
        if _fits(gradient, formula, case.truth[leaf]):
            return idea.says
    return _by_choice(m, leaf, _plain(m, wrong, _WRONG)) or _by_parts(m, case, formula, chosen)


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
    known = parts(program, case.names, args)
    with working(START_BITS):
        for idea in terms(case, known):
            if _fits(idea.gradient, formula, case.truth[case.leaf]):
                return idea.says
    return None


def _plain(m: Measurements, rows: Sequence[int], most: int) -> list[int]:
    """Ordinary rows where everything is known, of as many different cotangents as there are."""
    assert m.rule is not None
    known = (m.reference.states(GRADIENTS) == REGULAR).all(axis=1)
    known &= (columns(m.rule.gradient_states, m.count) == REGULAR).all(axis=1)
    known &= (m.reference.states(VALUES) == REGULAR).all(axis=1)
    values = columns(m.points, m.count)
    sizes = np.abs(values).max(axis=1, initial=0)
    special = np.isin(values, (0.0, 1.0, -1.0)).sum(axis=1)
    special += [len(row) - len(set(row)) for row in values.tolist()]
    turns: Counter[str] = Counter()
    order = []
    # At 0 and 1, and where numbers are equal, many formulas are one.
    for row in sorted((r for r in rows if known[r]), key=lambda r: (special[r], sizes[r] > 100, r)):
        name = m.probes[row].cotangent
        order.append((turns[name], row))  # one of each first
        turns[name] += 1
    return [row for _, row in sorted(order)[:most]]


def _case(m: Measurements, leaf: int, rows: Array) -> Case:
    return Case(
        leaf,
        [v.path for v in m.subject.leaves],
        [p[rows] for p in m.points],
        [c[rows] for c in m.cotangents],
        [g[rows] for g in m.truth.gradients],
        [v[rows] for v in m.truth.values],
    )


def _evaluated(m: Measurements, leaf: int, ideas: Sequence[Elsewhere], count: int) -> list[Array]:
    """The truth for all of them in one walk."""
    if not ideas:
        return []
    with working(START_BITS):
        points = [
            np.concatenate([_balls(i.points[k]) for i in ideas]) for k in range(len(m.points))
        ]
    weights = [np.concatenate([i.cotangents[k] for i in ideas]) for k in range(len(m.cotangents))]
    truth = m.sources.primal.evaluate(
        points, weights, Ask(m.reference.goal, ties=False, nudged=False)
    )
    return [truth.gradients[leaf][n * count : (n + 1) * count] for n in range(len(ideas))]


def _balls(values: Array) -> Array:
    """Floats are exact; what are balls already stay what they are."""
    return values if values.dtype == object else np.asarray(exact(values))


def _fits(candidate: Array, formula: Array, truth: Array) -> bool:
    """The same everywhere, and that says something: enough numbers, and not the truth's own."""
    if candidate.shape != formula.shape:
        return False
    pairs = list(zip(candidate.flat, formula.flat, strict=True))
    telling = sum(bool(f != 0) for f in formula.flat)
    apart = any(not c.overlaps(t) for c, t in zip(candidate.flat, truth.flat, strict=True))
    return (
        telling >= min(_FEWEST_FITS, len(pairs))
        and telling > 1
        and apart
        and all(c.is_finite() and c.overlaps(f) for c, f in pairs)
    )
