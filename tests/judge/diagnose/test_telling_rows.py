"""Hypotheses are tried at few rows: ordinary ones, of many cotangents."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.inputs.cotangents import BASE, OTHER
from gradcheck_cli.judge.diagnose.telling_rows import case_at, telling_rows
from tests.support import measured


def square(x):
    return x * x


def slope(x, weight):
    return 2 * x * weight


def test_ordinary_numbers_come_before_special_and_huge_ones() -> None:
    m = measured([0.0, 1.0, 1000.0, 2.0, 3.0], square, slope)
    base = [row for row, probe in enumerate(m.probes) if probe.cotangent == BASE]
    assert [m.points[0][row] for row in telling_rows(m, base, 4)] == [2.0, 3.0, 1000.0, 0.0]


def test_each_cotangent_has_its_turn() -> None:
    m = measured([2.0, 3.0, 4.0], square, slope)
    rows = [row for row, probe in enumerate(m.probes) if probe.cotangent in (BASE, OTHER)]
    assert {m.probes[row].cotangent for row in telling_rows(m, rows, 2)} == {BASE, OTHER}


def test_rows_without_a_truth_are_left_out() -> None:
    m = measured([-1.5, 2.0], lambda x: np.where(x < 0, np.nan, x), lambda x, weight: weight)
    assert [m.points[0][row] for row in telling_rows(m, [0, 1], 2)] == [2.0]


def test_a_case_has_what_goes_in_and_the_truth_at_its_rows() -> None:
    m = measured([2.0, 3.0, 4.0], square, slope)
    case = case_at(m, 0, np.array([2, 0]))
    assert (case.leaf, list(case.names)) == (0, ["x"])
    assert case.points[0].tolist() == [4.0, 2.0]
    assert [float(ball) for ball in case.values[0]] == [16.0, 4.0]
    weights = case.cotangents[0].tolist()
    assert [float(ball) for ball in case.truth[0]] == [8.0 * weights[0], 4.0 * weights[1]]
