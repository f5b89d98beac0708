"""A report as text: one file or folder a format, each with `render(report, look)`; so too the map of a sweep."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.report.look import Look

# A format is imported when it is asked for: rich is of no use to JSON.
FORMATS = {
    "text": "gradcheck_cli.report.text.page",
    "concise": "gradcheck_cli.report.concise",
    "statistics": "gradcheck_cli.report.statistics",
    "json": "gradcheck_cli.report.json",
    "json-lines": "gradcheck_cli.report.json_lines",
    "sarif": "gradcheck_cli.report.sarif",
    "junit": "gradcheck_cli.report.junit",
    "github": "gradcheck_cli.report.github",
    "gitlab": "gradcheck_cli.report.gitlab",
    "markdown": "gradcheck_cli.report.markdown",
    "html": "gradcheck_cli.report.html.page",
    "svg": "gradcheck_cli.report.svg",
}
# Of a sweep: each has `render_map(sweep, width)`.
MAP_FORMATS = {
    "text": "gradcheck_cli.report.text.sweep_map",
    "json": "gradcheck_cli.report.json",
    "html": "gradcheck_cli.report.html.sweep",
    "svg": "gradcheck_cli.report.svg",
}
# What is drawn along each argument is measured for these alone.
DRAWN = ("html", "svg")


class Format(Protocol):
    """What the file of a format offers."""

    def render(self, report: Report, look: Look) -> str: ...


class MapFormat(Protocol):
    """What the file of a format offers for the map of a sweep; `width` is the terminal's."""

    def render_map(self, sweep: Map, width: int) -> str: ...


def render(name: str, report: Report, look: Look) -> str:
    """The report in the format of that name."""
    return cast(Format, import_module(FORMATS[name])).render(report, look)


def render_map(name: str, sweep: Map, width: int) -> str:
    """The map in the format of that name."""
    return cast(MapFormat, import_module(MAP_FORMATS[name])).render_map(sweep, width)
