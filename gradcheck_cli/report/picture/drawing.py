"""A plot as SVG: correct bits of value, rule and autodiff along one argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Boundary, Finding, Plot, Severity
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.picture.axis import Axis
from gradcheck_cli.report.picture.frame import LEFT, RIGHT, Frame

HEIGHT = 190.0
_THINNEST = 2.0  # of the mark of an interval

# Drawn in this order: what is judged lies on top.
SERIES = ("value", "autodiff", "rule")


@dataclass(frozen=True, slots=True)
class Fault:
    """An interval of the argument over which a finding holds."""

    start: float
    stop: float
    severity: Severity


def faults(plot: Plot, findings: Sequence[Finding]) -> list[Fault]:
    """Where along the plot findings hold."""
    return [
        Fault(*_ends(bound, plot), finding.severity)
        for finding in findings
        if finding.fingerprint in plot.shows
        for bound in finding.boundary
    ]


def axis_of(plot: Plot) -> Axis:
    """The axis of the argument."""
    return Axis.over([float(v) for v in plot.at], LEFT, RIGHT)


def drawing(plot: Plot, marked: Sequence[Fault]) -> Markup:
    """The picture of a plot."""
    axis, frame = axis_of(plot), Frame(HEIGHT, plot.full)
    return frame.picture(
        f"Correct bits along {named(plot)}",
        *(_fault(fault, axis, frame) for fault in marked),
        *frame.levels(),
        *(mark for value, text in axis.ticks() for mark in frame.tick(axis.place(value), text)),
        *(_series(name, bits, plot, axis) for name in SERIES if (bits := _bits(plot, name))),
    )


def named(plot: Plot) -> str:
    """`x`, or `x[2, 0]`."""
    index = f"[{', '.join(map(str, plot.index))}]" if plot.index else ""
    return plot.argument + index


def _bits(plot: Plot, name: str) -> list[float | None]:
    return {"value": plot.value, "rule": plot.rule, "autodiff": plot.autodiff}[name] or []


def _ends(bound: Boundary, plot: Plot) -> tuple[float, float]:
    """The interval; one that is open goes on to the end of what was looked at."""
    low, high = float(plot.at[0]), float(plot.at[-1])
    start = low if bound.from_open else float(bound.start)
    return start, high if bound.to_open else float(bound.stop)


def _fault(fault: Fault, axis: Axis, frame: Frame) -> Markup:
    return frame.mark(axis.place(fault.start), axis.place(fault.stop), fault.severity, _THINNEST)


def _series(name: str, bits: Sequence[float | None], plot: Plot, axis: Axis) -> Markup:
    """A line where neighbours are known, and a dot for each of them."""
    frame = Frame(HEIGHT, plot.full)
    places = [axis.place(float(value)) for value in plot.at]
    line, dots, before = "", "", False
    for x, number in zip(places, bits, strict=True):
        if number is None:
            before = False
            continue
        place = f"{x:.1f} {frame.place_of(number):.1f}"
        line += f"{'L' if before else 'M'}{place}"
        dots += f"M{place}h0"
        before = True
    return element(
        "g", element("path", d=line, class_="way"), element("path", d=dots, class_="dots"), class_=f"series {name}"
    )  # fmt: skip


def legend(plot: Plot, x: float, y: float) -> Markup:
    """The names of what is drawn, for a picture that stands alone."""
    parts = []
    for name in SERIES:
        if _bits(plot, name):
            parts.append(element("text", f"● {name}", class_=f"name {name}", x=x, y=y))
            x += 62.0
    return joined(*parts)
