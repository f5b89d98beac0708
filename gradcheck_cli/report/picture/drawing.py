"""A plot as SVG: correct bits of value, rule and autodiff along one argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Boundary, Finding, Plot, Severity
from gradcheck_cli.report.markup import Markup, element, joined
from gradcheck_cli.report.picture.axis import Axis

WIDTH, HEIGHT = 720.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 12.0, 10.0, 24.0
_THINNEST = 2.0  # of the mark of an interval

# Drawn in this order: what is judged lies on top.
SERIES = (("value", "value"), ("autodiff", "autodiff"), ("rule", "rule"))


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
    return Axis.over([float(v) for v in plot.at], _LEFT, WIDTH - _RIGHT)


def drawing(plot: Plot, marked: Sequence[Fault]) -> Markup:
    """The picture of a plot; colours and fonts are the page's."""
    axis = axis_of(plot)
    parts = [
        *(_fault(fault, axis) for fault in marked),
        *_grid(plot, axis),
        *(_series(name, bits, plot, axis) for name, _ in SERIES if (bits := _bits(plot, name))),
    ]
    return element(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img",
        aria_label=f"Correct bits along {named(plot)}", class_="bits",
    )  # fmt: skip


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


def _height(bits: float, plot: Plot) -> float:
    return _TOP + (1 - bits / plot.full) * (HEIGHT - _TOP - _BOTTOM)


def _fault(fault: Fault, axis: Axis) -> Markup:
    left, right = axis.place(fault.start), axis.place(fault.stop)
    width = max(right - left, _THINNEST)
    return element(
        "rect", class_=f"fault {fault.severity}", x=left, y=_TOP, width=width, height=HEIGHT - _TOP - _BOTTOM
    )  # fmt: skip


def _grid(plot: Plot, axis: Axis) -> Iterator[Markup]:
    """Lines at no bits, half of them and all; marks of the argument below."""
    for bits in (0.0, plot.full / 2, plot.full):
        y = _height(bits, plot)
        yield element("line", class_="grid", x1=axis.left, x2=axis.right, y1=y, y2=y)
        yield element(
            "text", f"{bits:g}", class_="label", x=axis.left - 6, y=y + 4, text_anchor="end"
        )
    bottom = HEIGHT - _BOTTOM
    for value, text in axis.ticks():
        x = axis.place(value)
        yield element("line", class_="tick", x1=x, x2=x, y1=bottom, y2=bottom + 4)
        yield element("text", text, class_="label", x=x, y=bottom + 16, text_anchor="middle")


def _series(name: str, bits: Sequence[float | None], plot: Plot, axis: Axis) -> Markup:
    """A line where neighbours are known, and a dot for each of them."""
    places = [axis.place(float(value)) for value in plot.at]
    line, dots, before = "", "", False
    for x, number in zip(places, bits, strict=True):
        if number is None:
            before = False
            continue
        place = f"{x:.1f} {_height(number, plot):.1f}"
        line += f"{'L' if before else 'M'}{place}"
        dots += f"M{place}h0"
        before = True
    return element(
        "g", element("path", d=line, class_="way"), element("path", d=dots, class_="dots"), class_=f"series {name}"
    )  # fmt: skip


def legend(plot: Plot, x: float, y: float) -> Markup:
    """The names of what is drawn, for a picture that stands alone."""
    parts = []
    for name, text in SERIES:
        if _bits(plot, name):
            parts.append(element("text", f"● {text}", class_=f"name {name}", x=x, y=y))
            x += 62.0
    return joined(*parts)
