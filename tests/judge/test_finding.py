"""A failure becomes a finding: its parts together, on hand-made measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradcheck_cli.contract.report import Boundary, Finding, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge import finding as finding_module
from gradcheck_cli.judge.finding import GroundedFinding, make_finding
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.laws.finite import FINITE
from gradcheck_cli.judge.laws.law import judgement
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.rule_pages import find
from tests.support import measured
from tests.traced import failure, gradient_of, traced

SITE = Site("model.py", 3, 5, 9, "loss", "model.py")
GRADIENT = gradient_of(lambda x: x)
EDGE = float(np.float32(88.72284))


def slope(x, weight):
    return 2 * x * weight


def nan_from_the_edge(x, weight):
    return np.where(x >= EDGE, np.nan, slope(x, weight))


def overflowing() -> tuple[Failure, Measurements]:
    """A gradient that is NaN from 88.72284 on, tried up to 200."""
    floats = {"custom": nan_from_the_edge}
    m = measured([0.5, -3.0, 100.0, 200.0], np.square, slope, floats=floats)
    [broken] = judgement(FINITE, m).failures
    return broken, m


def made(failure: Failure, m: Measurements, site: Site = SITE) -> Finding:
    return make_finding(failure, m, GRADIENT, site).finding


def test_the_message_ends_with_the_boundary() -> None:
    finding = made(*overflowing())
    text = "the gradient is NaN where the truth is finite, for x ≥ 88.72284"
    assert (finding.message, finding.severity) == (text, Severity.ERROR)
    assert finding.boundary == [
        Boundary(argument="x", index=[], start=88.72284, stop=200.0, from_open=False, to_open=True)
    ]


def test_every_part_is_about_the_failing_row() -> None:
    finding = made(*overflowing())
    assert finding.witness is not None
    assert (finding.witness.inputs[0].value, finding.witness.custom) == (100.0, "nan")
    assert finding.reproduce == 'cgcheck model.py:loss --at "x=100"'
    assert finding.profile is not None
    assert finding.profile.bits == [24.0, 24.0, 0.0, 0.0]
    assert (finding.dtypes, finding.modes) == (["float32"], ["eager"])
    assert (finding.rule, finding.help) == (
        "non-finite-gradient",
        find(RuleName.NON_FINITE_GRADIENT).help,
    )


def test_what_the_failure_says_of_itself_is_kept() -> None:
    broken, m = overflowing()
    finding = made(replace(broken, help="do this", expect="safe_at(x=100)"), m)
    assert (finding.help, finding.expect) == ("do this", "safe_at(x=100)")


def test_two_intervals_are_both_named() -> None:
    m = measured([-2.0, -1.0, 1.0, 2.0], np.square, slope)
    wrong = failure(RuleName.GRADIENT_MISMATCH, modes=(), holds=lambda m: abs(m.points[0]) == 2)
    assert made(wrong, m).message == "it is off, for x ≤ -2 and for x ≥ 2"


def test_neither_the_numbers_nor_the_line_enter_the_fingerprint() -> None:
    broken, m = overflowing()
    elsewhere = made(replace(broken, row=broken.row + 1, message="other"), m, replace(SITE, line=9))
    identity = fingerprint(broken.rule, SITE, broken.ground.text, 0)
    assert made(broken, m).fingerprint == elsewhere.fingerprint == identity


def test_the_number_of_the_argument_does() -> None:
    m = traced(lambda x, y: x * y, [1.0, 2.0], [3.0, 4.0], cotangents=["base"])
    wrong = [failure(RuleName.GRADIENT_MISMATCH, component=k) for k in (0, 1)]
    first, second = (made(f, m).fingerprint for f in wrong)
    assert first != second


def test_the_grounds_are_those_of_the_simplest_point(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, m = overflowing()
    simpler = replace(broken, row=broken.row + 1)
    monkeypatch.setattr(finding_module, "simplified", lambda failure, m: (simpler, m))
    grounded: GroundedFinding = make_finding(broken, m, GRADIENT, SITE)
    assert (grounded.failure, grounded.measurements) == (simpler, m)
    assert grounded.finding.reproduce == 'cgcheck model.py:loss --at "x=200"'


def test_where_rows_are_dear_there_is_no_simpler_point_and_no_boundary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, m = overflowing()
    vars(m)["dear"] = True  # a cached fact
    monkeypatch.setattr(finding_module, "simplified", None)  # it would raise
    finding = made(broken, m)
    assert finding.message == "the gradient is NaN where the truth is finite"
    assert (finding.boundary, finding.cause) == ([], None)
    assert finding.witness is not None
