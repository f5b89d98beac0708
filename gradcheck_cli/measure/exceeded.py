"""Where the formula is right but for a number that stands for infinity, and is exceeded: scores beyond a mask's -1e9 (SEMANTICS F)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Ask, Reals
from gradcheck_cli.measure.components import as_floats, columns
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.states import REGULAR
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.farther_infinities import Infinities, infinities

Array = np.ndarray[Any, Any]


def exceeds_an_infinity(m: Measurements, rows: Array, part: slice) -> Array:
    """Which of the rows exceed such a number, and are right if all of them are farther out."""
    none = np.zeros(len(rows), bool)
    traces = m.subject.traces()
    if traces.primal is None or traces.rule is None or m.in_part or m.dear:
        return none
    primal, rule = map(infinities, (traces.primal, traces.rule))
    if primal is None or rule is None:
        return none
    points, cotangents = ([each[rows] for each in given] for given in (m.points, m.cotangents))
    beyond = _reached(primal, [*points, *cotangents], m.reference.goal)
    if not beyond.any():
        return none
    ask = Ask(m.reference.goal, ties=True, nudged=False)
    true, ours = (Reals(each.farther).evaluate(points, cotangents, ask) for each in (primal, rule))
    parts = [
        (columns(t.gradients, len(rows))[:, part], columns(t.gradient_states, len(rows))[:, part])
        for t in (true, ours)
    ]
    (a, known), (b, also) = parts
    meet = np.array([[x.overlaps(y) for x, y in zip(*row, strict=True)] for row in zip(a, b, strict=True)], bool)  # fmt: skip
    right = meet & (known == REGULAR) & (also == REGULAR)
    return np.asarray(beyond & right.all(axis=1))


def _reached(there: Infinities, args: Sequence[Array], goal: int) -> Array:
    """The rows in which what stands beside such a number is as large."""
    beside = enclose(there.beside, args, goal=goal).outs
    reached = np.zeros(len(args[0]), bool)
    for out, size in zip(beside, there.sizes, strict=True):
        reached |= (np.abs(as_floats(out)).reshape(len(out), -1) >= size).any(axis=1)
    return reached
