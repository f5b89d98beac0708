"""Rows at which a loop ran out, on truths that are made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.run_out import leave_run_out
from gradcheck_cli.measure.states import OUTSIDE
from tests.support import Numbers, measured

POINTS = np.array([0.5, 1.0, 1.5, 2.0, 64.0])


class Iterated(Numbers):
    """Its loop runs out beyond 32."""

    def run_out(self, points: Any, cotangents: Any) -> Any:
        return np.asarray(points[0], float) > 32


class AlwaysOut(Numbers):
    def run_out(self, points: Any, cotangents: Any) -> Any:
        return np.ones(len(points[0]), bool)


def left_out(source: type[Numbers], rule: Any) -> set[float]:
    """The points that are left out: of each row of them, and of no other."""
    m = measured(POINTS, np.sqrt, slope, rule=rule)
    assert m.rule is not None
    truth, formula = (writable(each) for each in (m.truth, m.rule))
    asked: Any = m.reference.source
    wide = source(asked.value, asked.gradient, over_reals=False)
    gone = leave_run_out(wide, m, truth, formula)
    outside = (truth.gradient_states[0] == OUTSIDE).reshape(m.count, -1).any(axis=1)
    assert np.flatnonzero(outside).tolist() == list(gone)
    return set(m.points[0][list(gone)].reshape(-1).tolist())


def writable(truth: Truth) -> Truth:
    states = ("value_states", "gradient_states")
    return replace(truth, **{name: [np.array(s) for s in getattr(truth, name)] for name in states})


def slope(x: Any, w: Any) -> Any:
    return w / (2 * np.sqrt(x))


def apart_beyond(x: Any, w: Any) -> Any:
    return np.where(x > 32, 0.0 * w, slope(x, w))


def test_rows_at_which_a_loop_ran_out_are_outside_the_domain() -> None:
    assert left_out(Iterated, apart_beyond) == {64.0}


def test_rows_where_truth_and_rule_agree_are_not_asked() -> None:
    assert left_out(Iterated, slope) == set()


def test_a_loop_that_runs_out_everywhere_is_meant_to() -> None:
    assert left_out(AlwaysOut, apart_beyond) == set()
