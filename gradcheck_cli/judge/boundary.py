"""Over which interval of an argument a failure holds, and that in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.contract.number_text import tidy
from gradcheck_cli.contract.report import Boundary, Severity
from gradcheck_cli.judge.witness import as_number
from gradcheck_cli.measure.boundary import Interval, find_boundaries
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.sampled_subject import steps

_MOST_ARGUMENTS = 3
_MOST_HELD = 2  # other arguments of which it is said what they were
_MOST_VALUES = 256
_STEPS = 400_000  # of flint for the truth at all values that are looked at: a few seconds
_FEWEST_ROWS = 256


def boundaries(failure: Failure, m: Measurements) -> list[Interval]:
    """Along the argument of the failing component; along others if it holds all over that one."""
    if failure.holds is None or failure.everywhere:
        return []
    if failure.severity is Severity.NOTE and any(leaf.shape for leaf in m.subject.leaves):
        return []  # dozens of walks over whole arrays, for a line that is folded away
    rows = _STEPS // steps(m.subject)
    if rows < _FEWEST_ROWS:
        return []  # of an array so dear its witness says enough
    spread = np.unique(np.concatenate([p.reshape(-1) for p in m.spread]))
    spread = spread[:: max(1, len(spread) // min(_MOST_VALUES, rows // 4))]
    leaf, element = _argument(failure, m)
    others = [
        (i, element) for i, p in enumerate(m.subject.leaves) if i != leaf and element < p.size
    ]
    for argument in [(leaf, element), *others][:_MOST_ARGUMENTS]:
        domain = m.subject.leaves[argument[0]].domain
        if domain is not None and domain.joint:
            continue  # one element alone leaves it
        values = spread if domain is None else np.unique(domain.into(spread, m.fmt))
        found = find_boundaries(m, failure.row, *argument, values, failure.holds)
        if domain is not None and domain.is_discrete:
            found = [_of_whole_numbers(interval) for interval in found]
        intervals = _joined(found) if m.subject.leaves[argument[0]].shape else found
        if not intervals:
            return []
        if len(intervals) > 1 or not (intervals[0].start_open and intervals[0].stop_open):
            return intervals
    return []


def _of_whole_numbers(interval: Interval) -> Interval:
    """From one of the numbers that there are to another: between 0 and 1 a mask has none."""
    start, stop = float(np.ceil(interval.start)), float(np.floor(interval.stop))
    return replace(interval, start=start, stop=stop) if start <= stop else interval


def _joined(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals along an element of an array; two that meet in all the digits that are told are one."""
    joined: list[Interval] = []
    for interval in sorted(intervals, key=lambda each: each.start):
        if joined and _told(joined[-1].stop) == _told(interval.start):
            longer = replace(joined[-1], stop=interval.stop, stop_open=interval.stop_open)
            joined[-1] = longer
        else:
            joined.append(interval)
    return joined if len(joined) < len(intervals) else list(intervals)


def in_words(interval: Interval, m: Measurements) -> str:
    """As in `for x ≥ 88.72284`, `at x = 0`."""
    name = argument_name(m, interval.leaf, interval.element)
    start, stop = m.fmt.show(interval.start), m.fmt.show(interval.stop)
    if max(abs(interval.start), abs(interval.stop)) <= m.fmt.tiny:
        return f"at {name} = 0"
    if 0 < interval.start <= m.fmt.tiny:
        end = _end(interval.stop, stop, interval, m)
        return f"for {name} > 0" if interval.stop_open else f"for 0 < {name} ≤ {end}"
    if -m.fmt.tiny <= interval.stop < 0:
        end = _end(interval.start, start, interval, m)
        return f"for {name} < 0" if interval.start_open else f"for {end} ≤ {name} < 0"
    if interval.start_open and interval.stop_open:
        return f"for every {name} that was tried"
    closed = not (interval.start_open or interval.stop_open)
    if closed and start == stop:
        return f"at {name} = {start}"
    if m.subject.leaves[interval.leaf].shape:
        return _about(interval, name)
    if interval.start_open:
        return f"for {name} ≤ {stop}"
    return f"for {name} ≥ {start}" if interval.stop_open else f"for {start} ≤ {name} ≤ {stop}"


def held(intervals: Sequence[Interval], m: Measurements, row: int) -> str:
    """What the other numbers were while one was moved: `, with x = 100`; nothing where they are many, or arrays."""
    moved = {interval.leaf for interval in intervals}
    others = [i for i in range(len(m.subject.leaves)) if i not in moved]
    if not (intervals and others) or len(others) > _MOST_HELD:
        return ""
    if any(leaf.shape for leaf in m.subject.leaves):
        return ""
    shown = (f"{m.subject.leaves[i].path} = {m.fmt.show(float(m.points[i][row]))}" for i in others)
    return f", with {' and '.join(shown)}"


def _end(value: float, exact: str, interval: Interval, m: Measurements) -> str:
    """An end beside 0: in all its digits for a number, about that for an element of an array."""
    return f"about {_told(value)}" if m.subject.leaves[interval.leaf].shape else exact


def _told(end: float) -> str:
    """An edge to three digits."""
    return tidy(f"{end:.3g}")


def _about(interval: Interval, name: str) -> str:
    """As in `for x[2] from about 0.5 on`: edges along an element of an array are known to three digits."""
    start, stop = _told(interval.start), _told(interval.stop)
    if interval.start_open:
        return f"for {name} up to about {stop}"
    if interval.stop_open:
        return f"for {name} from about {start} on"
    return (
        f"for {name} about {start}" if start == stop else f"for {name} from about {start} to {stop}"
    )


def argument_name(m: Measurements, leaf: int, element: int) -> str:
    """`x`, or `x[2, 0]` for an element of an array."""
    spec = m.subject.leaves[leaf]
    if not spec.shape:
        return spec.path
    return f"{spec.path}[{', '.join(map(str, _index(element, spec.shape)))}]"


def as_boundary(interval: Interval, m: Measurements) -> Boundary:
    """An interval as the report has it."""
    leaf = m.subject.leaves[interval.leaf]
    return Boundary(
        argument=leaf.path,
        index=_index(interval.element, leaf.shape),
        start=as_number(interval.start, m.fmt),
        stop=as_number(interval.stop, m.fmt),
        from_open=interval.start_open,
        to_open=interval.stop_open,
    )


def _index(element: int, shape: tuple[int, ...]) -> list[int]:
    return [int(i) for i in np.unravel_index(element, shape)] if shape else []


def _argument(failure: Failure, m: Measurements) -> tuple[int, int]:
    """Leaf and element that a gradient belongs to; for a value, the largest number that went in."""
    if failure.what == GRADIENTS:
        number, index = component_name(m, GRADIENTS, failure.component)
        shape = m.subject.leaves[number].shape
        return number, int(np.ravel_multi_index(index, shape)) if shape else 0
    sizes = [float(np.abs(p[failure.row]).max(initial=0)) for p in m.points]
    leaf = int(np.argmax(sizes))
    flat = np.abs(m.points[leaf][failure.row].reshape(-1))
    return leaf, int(flat.argmax()) if flat.size else 0
