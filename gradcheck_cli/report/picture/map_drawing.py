"""A sweep's map as SVG: the least correct bits of neighbouring floats, over all of them in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.report.markup import Markup, element
from gradcheck_cli.report.picture.axis import label
from gradcheck_cli.report.picture.frame import LEFT, RIGHT, Frame
from gradcheck_cli.report.stretches import severity

HEIGHT = 150.0
_ROOM = RIGHT - LEFT
_THINNEST = 1.0  # of the mark of a stretch
_LABEL = 40.0  # as much room as one takes
_POWERS = (0, -4, 4, -10, 10, -20, 20, -30, 30)  # where there is room, the first ones first


def map_drawing(sweep: Map, result: int) -> Markup:
    """The picture of one result."""
    fmt = format_of(sweep.dtype)
    frame = Frame(HEIGHT, float(fmt.digits))
    return frame.picture(
        f"Correct bits of {sweep.results[result]}",
        *_marks(sweep, result, fmt, frame),
        *frame.levels(),
        *(mark for value, x in _ticks(fmt) for mark in frame.tick(x, label(value))),
        *_columns(sweep.levels[result], frame),
    )


def can_be_drawn(sweep: Map) -> bool:
    """Is it of every float of one argument? A grid has gaps, and may be of a part of them."""
    return len(sweep.arguments) == 1 and sweep.dtype != "float64"


def _place(ordinal: float, fmt: Format) -> float:
    top = float(fmt.ordinals(fmt.max))
    return LEFT + min(max((ordinal / top + 1) / 2, 0.0), 1.0) * _ROOM


def _marks(sweep: Map, result: int, fmt: Format, frame: Frame) -> Iterator[Markup]:
    """The stretches that are faults, from their first float to their last."""
    for stretch in sweep.stretches:
        mark = severity(stretch)
        if stretch.result == result and mark:
            left, right = _place(stretch.first[0], fmt), _place(stretch.last[0] + 1, fmt)
            yield frame.mark(left, right, mark, _THINNEST)


def _ticks(fmt: Format) -> Iterator[tuple[float, float]]:
    """Powers of ten with their places, none so near to another that they could not be read."""
    taken: list[float] = []
    powers = (10.0**power for power in _POWERS if 10.0**power <= fmt.max)
    for value in (0.0, *(sign * power for power in powers for sign in (1, -1))):
        x = _place(float(fmt.ordinals(value)), fmt)
        if all(abs(x - other) >= _LABEL for other in taken):
            taken.append(x)
            yield value, x


def _columns(levels: Sequence[float], frame: Frame) -> Iterator[Markup]:
    """Steps as high as the worst float of each part; gaps where nothing is judged."""
    way, before = "", False
    for number, bits in enumerate(levels):
        if bits < 0:
            before = False
            continue
        left = LEFT + number / len(levels) * _ROOM
        y = frame.place_of(bits)
        way += f"{'L' if before else 'M'}{left:.1f} {y:.1f}h{_ROOM / len(levels):.2f}"
        before = True
    yield element("g", element("path", d=way, class_="way"), class_="series rule map")
