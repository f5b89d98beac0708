"""Correct bits along one argument, the others held."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.judge.plot import can_be_drawn, plot_of
from gradcheck_cli.measure.measurements import Measurements
from tests.traced import ruled, traced


def at(function: Any, *points: Any) -> Measurements:
    return traced(function, *(np.asarray(point, float)[None] for point in points), ran=True)


@jax.custom_vjp
def softplus(x, scale):
    return scale * jnp.log1p(jnp.exp(x))


softplus.defvjp(
    lambda x, scale: (softplus(x, scale), (x, scale)),
    lambda kept, ct: (ct * kept[1] * jax.nn.sigmoid(kept[0]), ct * jnp.log1p(jnp.exp(kept[0]))),
)


def bits(series: list[float | None] | None, places: list[Any], value: float) -> float | None:
    assert series is not None
    return series[int(np.argmin(np.abs(np.array(places, float) - value)))]


def test_each_series_has_the_bits_of_its_worst_component() -> None:
    plot = plot_of(at(softplus, 10_000.0, 1.0), 0, 0, 0)
    assert plot is not None
    assert (plot.argument, plot.index, plot.dtype, plot.full) == ("x", [], "float32", 24.0)
    assert [(item.path, item.value) for item in plot.held] == [("y", 1.0)]
    assert bits(plot.value, plot.at, 1.0) == bits(plot.rule, plot.at, 1.0) == 24
    assert bits(plot.value, plot.at, 9e3) == bits(plot.rule, plot.at, 9e3) == 0
    assert len(plot.at) == len(plot.value) > 90


def test_a_wrong_rule_is_drawn_beside_the_truth() -> None:
    double = ruled(lambda x: x * x, lambda args, ct: (ct * args[0],))
    plot = plot_of(at(double, 3.0), 0, 0, 0)
    assert plot is not None
    assert bits(plot.rule, plot.at, 1.0) == 1
    assert bits(plot.autodiff, plot.at, 1.0) == 24
    assert plot.held == []


def test_where_the_truth_is_no_number_nothing_is_drawn() -> None:
    plot = plot_of(at(jnp.log, 2.0), 0, 0, 0)
    assert plot is not None
    assert plot.rule is None
    assert bits(plot.value, plot.at, -1.0) is None
    assert bits(plot.value, plot.at, 3.0) == 24


def test_one_element_moves_and_the_others_stay() -> None:
    plot = plot_of(at(lambda x: jnp.sum(x * x), [[1.0, 2.0], [3.0, 4.0]]), 0, 0, 2)
    assert plot is not None
    assert plot.index == [1, 0]
    assert [item.value for item in plot.held] == [[1.0, 2.0, 3.0, 4.0]]


def test_values_that_are_asked_for_are_among_them() -> None:
    plot = plot_of(at(jnp.sin, 1.0), 0, 0, 0, also=[88.72284])
    assert plot is not None
    assert 88.72284 in plot.at
    assert plot.at == sorted(plot.at, key=float)


def test_what_costs_too_much_is_not_drawn() -> None:
    assert can_be_drawn(at(jnp.sin, 1.0))
    assert not can_be_drawn(at(lambda x: jnp.linalg.inv(x).sum(), np.eye(24)))
