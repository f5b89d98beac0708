"""A sweep's map as SVG: the least correct bits of neighbouring floats, over all of them in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.report.markup import Markup, element
from gradcheck_cli.report.picture.axis import label
from gradcheck_cli.report.stretches import severity

WIDTH, HEIGHT = 720.0, 150.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 12.0, 10.0, 24.0
_ROOM = WIDTH - _LEFT - _RIGHT
_LABEL = 40.0  # as much room as one takes
_POWERS = (0, -4, 4, -10, 10, -20, 20, -30, 30)  # where there is room, the first ones first


def map_drawing(sweep: Map, result: int) -> Markup:
    """The picture of one result; colours and fonts are the page's."""
    fmt = format_of(sweep.dtype)
    parts = (*_marks(sweep, result, fmt), *_grid(fmt), *_columns(sweep.levels[result], fmt))
    return element(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", role="img",
        aria_label=f"Correct bits of {sweep.results[result]}", class_="bits",
    )  # fmt: skip


def can_be_drawn(sweep: Map) -> bool:
    """Is it of every float of one argument? A grid has gaps, and may be of a part of them."""
    return len(sweep.arguments) == 1 and sweep.dtype != "float64"


def _place(ordinal: float, fmt: Format) -> float:
    top = float(fmt.ordinals(fmt.max))
    return _LEFT + min(max((ordinal / top + 1) / 2, 0.0), 1.0) * _ROOM


def _height(bits: float, fmt: Format) -> float:
    return _TOP + (1 - bits / fmt.digits) * (HEIGHT - _TOP - _BOTTOM)


def _marks(sweep: Map, result: int, fmt: Format) -> Iterator[Markup]:
    """The stretches that are faults, from their first float to their last."""
    for stretch in sweep.stretches:
        mark = severity(stretch)
        if stretch.result == result and mark:
            left, right = _place(stretch.first[0], fmt), _place(stretch.last[0] + 1, fmt)
            yield element(
                "rect", class_=f"fault {mark}", x=left, y=_TOP, width=max(right - left, 1.0), height=HEIGHT - _TOP - _BOTTOM
            )  # fmt: skip


def _grid(fmt: Format) -> Iterator[Markup]:
    for bits in (0.0, fmt.digits / 2, float(fmt.digits)):
        y = _height(bits, fmt)
        yield element("line", class_="grid", x1=_LEFT, x2=WIDTH - _RIGHT, y1=y, y2=y)
        yield element("text", f"{bits:g}", class_="label", x=_LEFT - 6, y=y + 4, text_anchor="end")
    for value, x in _ticks(fmt):
        yield element(
            "line", class_="tick", x1=x, x2=x, y1=HEIGHT - _BOTTOM, y2=HEIGHT - _BOTTOM + 4
        )
        yield element(
            "text", label(value), class_="label", x=x, y=HEIGHT - _BOTTOM + 16, text_anchor="middle"
        )


def _ticks(fmt: Format) -> Iterator[tuple[float, float]]:
    """Powers of ten with their places, none so near to another that they could not be read."""
    taken: list[float] = []
    powers = (10.0**power for power in _POWERS if 10.0**power <= fmt.max)
    for value in (0.0, *(sign * power for power in powers for sign in (1, -1))):
        x = _place(float(fmt.ordinals(value)), fmt)
        if all(abs(x - other) >= _LABEL for other in taken):
            taken.append(x)
            yield value, x


def _columns(levels: Sequence[float], fmt: Format) -> Iterator[Markup]:
    """Steps as high as the worst float of each part; gaps where nothing is judged."""
    way, before = "", False
    for number, bits in enumerate(levels):
        if bits < 0:
            before = False
            continue
        left = _LEFT + number / len(levels) * _ROOM
        y = _height(bits, fmt)
        way += f"{'L' if before else 'M'}{left:.1f} {y:.1f}h{_ROOM / len(levels):.2f}"
        before = True
    yield element("g", element("path", d=way, class_="way"), class_="series rule map")
