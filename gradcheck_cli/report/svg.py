"""SVG: the plots of all gradients, or the map of a sweep, in one picture, for a README or a slide."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from gradcheck_cli.contract.report import Gradient, Plot, Report
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.markup import Markup, element
from gradcheck_cli.report.picture.drawing import HEIGHT, drawing, faults, legend, named
from gradcheck_cli.report.picture.frame import WIDTH
from gradcheck_cli.report.picture.map_drawing import HEIGHT as MAP_HEIGHT
from gradcheck_cli.report.picture.map_drawing import can_be_drawn, map_drawing
from gradcheck_cli.report.stretches import about
from gradcheck_cli.report.words import backend_word, ignored_word, own, verdict_word

_HEAD = 26.0


def render(report: Report, look: Look) -> str:
    """The plots one below the other, each with what it shows."""
    pictures: list[Markup] = []
    below = 0.0
    for number, gradient in enumerate(report.gradients):
        findings = own(gradient, number, report.findings)
        for plot in gradient.plots:
            picture = drawing(plot, faults(plot, findings))
            pictures.append(_placed(picture, HEIGHT, below, *_title(gradient, plot)))
            below += HEIGHT + _HEAD
    return _alone(pictures, below)


def render_map(sweep: Map, width: int) -> str:
    """The map of each result of a sweep, one below the other."""
    pictures: list[Markup] = []
    if can_be_drawn(sweep):
        for number, name in enumerate(sweep.results):
            title = f"{sweep.gradient}: correct bits of {name} over {about(sweep)}"
            head = element("text", title, class_="title", x=12, y=18)
            pictures.append(
                _placed(map_drawing(sweep, number), MAP_HEIGHT, number * (MAP_HEIGHT + _HEAD), head)
            )
    return _alone(pictures, len(pictures) * (MAP_HEIGHT + _HEAD))


def _title(gradient: Gradient, plot: Plot) -> tuple[Markup, ...]:
    """What is drawn, how it was judged, and the names of the series."""
    title = f"{gradient.qualname}{backend_word(gradient)}: correct bits along {named(plot)}"
    return (
        element("text", title, class_="title", x=12, y=18),
        element("text", verdict_word(gradient) + ignored_word(gradient), class_="title", x=WIDTH - 210, y=18, text_anchor="end"),
        legend(plot, WIDTH - 198, 18),
    )  # fmt: skip


def _placed(picture: Markup, height: float, below: float, *title: Markup) -> Markup:
    """A picture of this height under its title, so far below the first one."""
    inner = element("svg", picture, y=_HEAD, width=WIDTH, height=height)
    return element("g", *title, inner, transform=f"translate(0 {below:g})")


def _alone(pictures: Sequence[Markup], height: float) -> str:
    """All of them as a file of its own, with fonts and colours."""
    empty = element("text", "cgcheck: nothing to draw", class_="title", x=12, y=20)
    height = height or _HEAD
    style = Markup(resources.files(__package__).joinpath("picture/picture.css").read_text("utf-8"))
    return str(
        element(
            "svg", element("style", style), *(pictures or [empty]), xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH:g} {height:g}", width=WIDTH, height=height, class_="alone",
        )
    ) + "\n"  # fmt: skip
