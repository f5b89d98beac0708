"""Plots as SVG: what is known is drawn, what is not leaves a gap, and faults are marked."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree as ET

from gradcheck_cli.contract.report import Boundary, Plot, Severity
from gradcheck_cli.report.picture.drawing import Fault, drawing, faults
from tests.reports import finding

NAME = "{http://www.w3.org/2000/svg}"


def plot(**changes: Any) -> Plot:
    of_x: dict[str, Any] = {
        "argument": "x", "index": [], "dtype": "float32", "at": [-10.0, 0.0, 1.0, 10.0], "full": 24.0, "held": [],
        "value": [24.0, None, 24.0, 24.0], "rule": [24.0, 24.0, 12.0, 0.0], "autodiff": None,
    }  # fmt: skip
    return Plot(**(of_x | changes))


def paths(of: Plot) -> dict[str, tuple[str, str]]:
    """The way and the dots of each series."""
    picture = ET.fromstring(drawing(of, []))
    series = [g for g in picture.iter(f"{NAME}g") if "series" in g.attrib["class"]]
    return {g.attrib["class"].split()[1]: (g[0].attrib["d"], g[1].attrib["d"]) for g in series}


def test_a_series_that_is_not_there_is_not_drawn() -> None:
    assert set(paths(plot())) == {"value", "rule"}


def test_where_nothing_is_known_the_way_begins_anew() -> None:
    way, dots = paths(plot())["value"]
    assert (way.count("M"), way.count("L"), dots.count("M")) == (2, 1, 3)


def test_no_bits_are_at_the_bottom_and_all_of_them_at_the_top() -> None:
    _, dots = paths(plot())["rule"]
    heights = [float(y) for y in re.findall(r" ([\d.]+)h0", dots)]
    assert heights[0] == heights[1] == min(heights) == 10.0
    assert heights[3] == max(heights) == 166.0


def test_faults_are_those_that_lie_on_the_line() -> None:
    bound = Boundary(argument="x", index=[], start=1.0, stop=10.0, to_open=True)
    told = finding(boundary=[bound], fingerprint="a", severity=Severity.ERROR)
    other = finding(boundary=[bound], fingerprint="b")
    assert faults(plot(shows=["a"]), [told, other]) == [Fault(1.0, 10.0, Severity.ERROR)]


def test_an_open_interval_goes_on_to_the_end_of_what_was_looked_at() -> None:
    bound = Boundary(argument="x", index=[], start=-1.0, stop=1.0, from_open=True)
    (fault,) = faults(plot(shows=["a"]), [finding(boundary=[bound], fingerprint="a")])
    assert (fault.start, fault.stop) == (-10.0, 1.0)


def test_a_fault_at_one_point_can_be_seen() -> None:
    picture = ET.fromstring(drawing(plot(), [Fault(0.0, 0.0, Severity.WARNING)]))
    (mark,) = picture.iter(f"{NAME}rect")
    assert float(mark.attrib["width"]) >= 2
    assert mark.attrib["class"] == "fault warning"
