"""A limit that is there only because two arguments vanish at once is none that anybody expects."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradcheck_cli.measure.coincidence import coincidental, coincidental_slope
from gradcheck_cli.measure.measurements import Measurements
from tests.traced import traced

ZEROS, ONES = np.zeros(2), np.ones(2)


def at(function: Any, *points: Any, kinks: bool = False) -> Measurements:
    return traced(function, *(np.asarray(point)[None] for point in points), kinks=kinks)


def reflected(x: Any, y: Any) -> Any:
    return x - 2 * (x @ y) * y / (y @ y)


def weighted(x: Any, y: Any) -> Any:
    return jnp.sum(y * jnp.sin(x) / x)


def test_a_mirror_of_no_length_has_a_limit_only_at_zero() -> None:
    assert coincidental(at(reflected, ZEROS, ZEROS), 0)


def closing_speed(place: Any, velocity: Any, carrier: Any) -> Any:
    return carrier * (place @ velocity) / jnp.sqrt(place @ place)


def test_two_that_vanish_may_hide_what_a_third_one_does() -> None:
    """At the origin itself no direction is known: only a carrier and a velocity of 0 together make it 0."""
    assert coincidental(at(closing_speed, ZEROS, ZEROS, np.array(0.0)), 0)


def ripple(x: Any, y: Any) -> Any:
    r = x @ x + y @ y
    return jnp.sin(r) / r * jnp.sqrt(0.25 - x @ y)


def test_what_ordinary_numbers_leave_for_another_reason_is_none() -> None:
    """There is a hole at the origin, and a root of a number below zero far away from it."""
    assert not coincidental(at(ripple, ZEROS, ZEROS), 0)


def test_a_removable_hole_is_none_by_coincidence() -> None:
    assert not coincidental(at(weighted, ZEROS, ONES), 0)
    assert not coincidental(at(weighted, ZEROS, ZEROS), 0)


def test_where_the_function_has_a_value_nothing_is_asked() -> None:
    assert not coincidental(at(reflected, ZEROS, ONES), 0)


def test_one_argument_vanishes_alone() -> None:
    assert not coincidental(at(lambda x: jnp.sum(jnp.sin(x) / x), ZEROS), 0)


def activity(x: Any, charge: Any) -> Any:
    return jnp.sqrt(jnp.sum(x * charge**2))


def distance(x: Any, y: Any) -> Any:
    return jnp.sum((x - y) ** 4) ** 0.5


def test_a_slope_is_finite_only_where_the_charge_vanishes_too() -> None:
    assert coincidental_slope(at(activity, ZEROS, ZEROS, kinks=True), 0, 0)


def test_a_slope_at_two_points_that_meet_is_none_by_coincidence() -> None:
    assert not coincidental_slope(at(distance, ZEROS, ZEROS, kinks=True), 0, 0)


def at_an_edge(x: Any, w: Any) -> Any:
    return jnp.sum(w * x * jnp.sqrt(x))


def test_an_edge_of_the_domain_is_no_coincidence() -> None:
    for other in (ONES, ZEROS):
        m = at(at_an_edge, ZEROS[:1], other[:1], kinks=True)
        assert not coincidental_slope(m, 0, 0)
