"""Probes to measurements, and the same probe elsewhere."""

from __future__ import annotations

import numpy as np

from gradcheck_cli.contract.report import Evidence
from gradcheck_cli.inputs.cotangents import BASE, ZERO
from gradcheck_cli.inputs.lattice import Points
from gradcheck_cli.measure.engine import line, measure, moved
from gradcheck_cli.measure.measurements import Measurements, Probe
from tests.support import measured


def slope(x, weight):
    return 2 * x * weight


def squares() -> Measurements:
    return measured([1.0, 2.0, 3.0], np.square, slope)


def test_a_probe_of_two_laws_is_one_row() -> None:
    m = squares()
    points = Points([np.array([1.0, 2.0])], ["a", "b"])
    probes = [Probe(0, BASE), Probe(1, BASE), Probe(0, BASE), Probe(0, ZERO)]
    again = measure(m.subject, points, probes, m.sources, seed=0)
    assert again.probes == [Probe(0, BASE), Probe(1, BASE), Probe(0, ZERO)]
    assert again.points[0].tolist() == [1.0, 2.0, 1.0]
    assert again.recipes == ["a", "b", "a"]


def test_a_probe_is_found_by_point_and_cotangent() -> None:
    m = squares()
    row = m.row(Probe(2, BASE))
    assert row is not None
    assert m.points[0][row] == 3.0
    assert m.row(Probe(7, BASE)) is None
    assert m.base_rows.tolist() == [r for r, p in enumerate(m.probes) if p.cotangent == BASE]


def test_moved_is_one_row_with_the_cotangent_of_the_old() -> None:
    m = squares()
    row = m.row(Probe(1, ZERO))
    there = moved(m, row, [np.array(5.0)])
    assert (there.count, there.points[0].tolist()) == (1, [5.0])
    assert there.cotangents[0].tolist() == [m.cotangents[0][row]]


def test_a_line_moves_one_component() -> None:
    m = squares()
    values = np.array([0.0, 1.5, 4.0])
    along = line(m, m.row(Probe(0, BASE)), 0, 0, values)
    assert along.points[0].tolist() == values.tolist()
    weights = along.cotangents[0]
    assert along.floats[along.mode].custom[0].tolist() == (2 * values * weights).tolist()


def test_evidence_is_the_weaker_of_truth_and_formula() -> None:
    assert squares().evidence is Evidence.CERTIFIED
    assert squares().judged == "custom"
    assert measured([1.0], np.square, slope, has_rule=False).judged == "auto"
