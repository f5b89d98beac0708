"""The plots of a report, and the map of a sweep, as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from gradcheck_cli.contract.report import Evidence, Verdict
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import render
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.svg import render_map
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.report.test_formats import HOSTILE
from tests.report.test_html import PLOT
from tests.reports import checked

NAME = "{http://www.w3.org/2000/svg}"


def picture(text: str) -> ET.Element:
    return ET.fromstring(text)


def of_plots(*plots: Any, **changes: Any) -> ET.Element:
    of_f = checked(verdict=Verdict.CORRECT, plots=list(plots), **changes)
    report = assemble([File("a.py", gradients=[of_f])], Settings())
    return picture(render("svg", report, Look(Path())))


def titles(of: ET.Element) -> list[str]:
    return [t.text or "" for t in of.iter(f"{NAME}text") if t.attrib.get("class") == "title"]


def test_each_plot_stands_below_the_one_before_it() -> None:
    whole = of_plots(PLOT, PLOT)
    moved = [g.attrib["transform"] for g in whole if "transform" in g.attrib]
    assert moved == ["translate(0 0)", "translate(0 216)"]
    assert float(whole.attrib["height"]) == 432
    assert titles(whole)[:2] == ["f: correct bits along x", "CORRECT"]


def test_a_report_without_plots_says_so() -> None:
    assert titles(of_plots()) == ["cgcheck: nothing to draw"]


def test_a_hostile_name_is_a_text() -> None:
    assert "<script>alert(1)</script>" in titles(of_plots(PLOT, qualname=HOSTILE))[0]


def test_a_map_has_a_picture_of_each_result() -> None:
    sweep = Map(
        gradient="f", path="a.py", line=3, dtype="float16", arguments=["x"], results=["value", "gradient"],
        evidence=Evidence.CERTIFIED, floats=63488, complete=True, stretches=[], levels=[[11.0, -1.0, 5.0], [11.0]],
    )  # fmt: skip
    whole = picture(render_map(sweep, 80))
    ways = [p.attrib["d"] for p in whole.iter(f"{NAME}path")]
    assert [way.count("M") for way in ways] == [2, 1]
    assert "correct bits of gradient over every float16" in titles(whole)[1]


def test_a_grid_has_no_picture() -> None:
    sweep = Map(
        gradient="f", path="a.py", line=3, dtype="float32", arguments=["x", "y"], results=["value"],
        evidence=Evidence.CERTIFIED, floats=4096, complete=True, stretches=[], levels=[[24.0]],
    )  # fmt: skip
    assert titles(picture(render_map(sweep, 80))) == ["cgcheck: nothing to draw"]
