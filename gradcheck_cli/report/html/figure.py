"""A plot on the page: the picture as it is printed, and its numbers for whoever points at it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from gradcheck_cli.contract.report import Finding, Plot
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.numbers import values
from gradcheck_cli.report.picture.axis import Axis
from gradcheck_cli.report.picture.drawing import SERIES, Fault, axis_of, drawing, faults, named


def figure(plot: Plot, findings: Sequence[Finding]) -> Markup:
    """The picture with its legend; where these findings hold is marked."""
    marked = faults(plot, findings)
    names = [
        element("span", name, class_=f"name {name}")
        for name in SERIES
        if getattr(plot, name) is not None
    ]
    caption = joined(
        "Correct bits of ", plot.dtype, " along ", element("code", named(plot)), *_held(plot)
    )
    return element(
        "figure",
        element("figcaption", element("span", caption), element("span", *names, class_="legend")),
        element("div", drawing(plot, marked), class_="plot", data_plot=_data(plot, marked)),
        element("output", class_="reading"),
    )


def _held(plot: Plot) -> list[str]:
    """What stays as it is."""
    items = [f"{item.path} = {values(item.value, item.recipe)}" for item in plot.held]
    return [", at ", element("code", ", ".join(items))] if items else []


def _data(plot: Plot, marked: Sequence[Fault]) -> str:
    """Numbers for the script: places on the axis, what stands at them, and the bits of each series."""
    axis = axis_of(plot)
    data = {
        "argument": named(plot),
        "full": plot.full,
        "at": [str(value) for value in plot.at],
        "steps": [_step(axis, float(value)) for value in plot.at],
        "ticks": [[_step(axis, value), text] for value, text in axis.ticks()],
        "faults": [[_step(axis, f.start), _step(axis, f.stop), f.severity] for f in marked],
        "series": {name: getattr(plot, name) for name in SERIES if getattr(plot, name) is not None},
    }
    return json.dumps(data, separators=(",", ":"))


def _step(axis: Axis, value: float) -> float:
    return round(axis.steps(value), 4)
