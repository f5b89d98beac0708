"""The map of a sweep as a page: a picture of each result, and its stretches."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.report.html.document import document
from gradcheck_cli.report.markup import Markup, element
from gradcheck_cli.report.picture.map_drawing import can_be_drawn, map_drawing
from gradcheck_cli.report.stretches import (
    about,
    gravest,
    is_faultless,
    label,
    says,
    severity,
    where,
)

_MOST_ROWS = 500


def render_map(sweep: Map, width: int) -> str:
    """The whole page."""
    name = f"{sweep.gradient}({', '.join(sweep.arguments)})"
    head = element("header", element("h1", "cgcheck sweep"), element("p", name, class_="closing"))
    place = element(
        "p", element("span", f"{sweep.path}:{sweep.line}", class_="place"), f" · {about(sweep)}"
    )
    parts = (part for number in range(len(sweep.results)) for part in _result(sweep, number))
    return document(
        f"cgcheck sweep {name}", element("div", head, element("main", place, *parts)), plots=False
    )


def _result(sweep: Map, number: int) -> Iterator[Markup]:
    """Value or gradient: its picture, and where it is not right."""
    mine = [stretch for stretch in sweep.stretches if stretch.result == number]
    yield element("h2", sweep.results[number])
    if can_be_drawn(sweep):
        yield element("figure", map_drawing(sweep, number), class_="map")
    if is_faultless(mine):
        yield element("p", "right everywhere")
    shown = gravest(mine, _MOST_ROWS)
    rows = [
        element(
            "tr", element("td", label(s), class_=severity(s) or "faint"), element("td", element("code", where(s, sweep))),
            element("td", says(s, sweep)),
        )
        for s in shown
    ]  # fmt: skip
    if rows:
        yield element("table", *rows, class_="stretches")
    if len(mine) > len(shown):
        yield element("p", f"and {len(mine) - len(shown)} more: --output-format json has them all")
