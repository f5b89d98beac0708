"""States that one truth lends another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.ball_truth import Truth
from gradcheck_cli.measure.measurements import Probe
from gradcheck_cli.measure.shared_states import (
    leave_open,
    leave_out_refused,
    share_domain,
    share_poles,
)
from gradcheck_cli.measure.states import OUTSIDE, POLE, REGULAR, UNDECIDED
from gradcheck_cli.reals.balls.balls import exact
from gradcheck_cli.subject.results import Floats

SINGLE = format_of("float32")


def truth(values: Sequence[float], states: Sequence[int]) -> Truth:
    balls = [np.asarray(exact(np.array(values, np.float64)))]
    return Truth(balls, [b.copy() for b in balls], *([np.array(states, np.int8)] for _ in "vg"))


def test_outside_the_primal_the_rule_is_not_judged() -> None:
    primal, rule = truth([1.0, 2.0], [OUTSIDE, REGULAR]), truth([1.0, 2.0], [REGULAR, REGULAR])
    share_domain(primal, rule)
    assert rule.gradient_states[0].tolist() == [OUTSIDE, REGULAR]


def test_a_pole_is_one_at_every_cotangent_of_its_point() -> None:
    poles = truth([1.0, 1.0, 1.0], [POLE, REGULAR, REGULAR])
    share_poles(poles, [Probe(0, "a"), Probe(0, "b"), Probe(1, "a")], SINGLE)
    assert poles.gradient_states[0].tolist() == [POLE, POLE, REGULAR]


def test_an_overflow_is_shared_too_and_stays_what_it_is() -> None:
    large = truth([1e39, 1.0], [REGULAR, REGULAR])
    share_poles(large, [Probe(0, "a"), Probe(0, "b")], SINGLE)
    assert large.gradient_states[0].tolist() == [REGULAR, POLE]


def test_rows_that_raise_are_outside() -> None:
    all_ = truth([1.0, 2.0], [REGULAR, REGULAR])
    leave_out_refused(all_, [Floats([], [], None, None, np.array([False, True]))])
    assert all_.value_states[0].tolist() == [REGULAR, OUTSIDE]


def test_a_value_that_is_another_in_wider_floats_is_left_open() -> None:
    wide = truth([1.0, 1.0], [REGULAR, REGULAR])
    leave_open(wide, None, [np.array([1.4, 2.1])])
    assert wide.gradient_states[0].tolist() == [REGULAR, UNDECIDED]
