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
# Of these each file of a run can be written when it is done: they have `begin(look, files)`, too.
UNFOLDING = ("text", "concise", "json-lines")


class Format(Protocol):
    """What the file of a format offers."""

    def render(self, report: Report, look: Look) -> str: ...


class Unfolded(Protocol):
    """A report that is written while files are done; `add` and `end` together are what `render` gives."""

    def add(self, report: Report) -> str:
        """What is to be said of some of its files."""

    def end(self, report: Report) -> str:
        """What is to be said of all of them at the end."""


class UnfoldingFormat(Protocol):
    """What the file of a format offers that can be written bit by bit; `files` is how many there will be."""

    def begin(self, look: Look, files: int) -> Unfolded: ...


class MapFormat(Protocol):
    """What the file of a format offers for the map of a sweep; `width` is the terminal's."""

    def render_map(self, sweep: Map, width: int) -> str: ...


def render(name: str, report: Report, look: Look) -> str:
    """The report in the format of that name."""
    return cast(Format, import_module(FORMATS[name])).render(report, look)


def begin(name: str, look: Look, files: int) -> Unfolded:
    """A report in the format of that name, of which nothing is written yet."""
    return cast(UnfoldingFormat, import_module(FORMATS[name])).begin(look, files)


def render_map(name: str, sweep: Map, width: int) -> str:
    """The map in the format of that name."""
    return cast(MapFormat, import_module(MAP_FORMATS[name])).render_map(sweep, width)
