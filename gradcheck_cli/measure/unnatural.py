"""Rows in which a quantity has numbers that it does not have by its name, and the function does not ask for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gradcheck_cli.inputs.quantities import Quantity, quantity_held_by
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.reals.program import Program, Slot, Step, alive

_OF_SIGNS = frozenset({"abs", "sign"})
_COMPARE = frozenset({"max", "min", "gt", "ge", "lt", "le", "clamp"})
_ASK = _OF_SIGNS | _COMPARE


def far_off(m: Measurements, rows: Sequence[int]) -> dict[str, Quantity]:
    """The arguments that are surely no quantity any more in some of these rows; none if in one of the rows all are."""
    held = {leaf.path: quantity_held_by(leaf) for leaf in m.subject.leaves}
    quantities = {path: q.with_ends for path, q in held.items() if q is not None and q.surely}
    far = {path: _far(m, path, q)[rows] for path, q in quantities.items()}
    if not rows or not far or not np.any(list(far.values()), axis=0).all():
        return {}
    return {path: q for path, q in quantities.items() if far[path].any()}


def _far(m: Measurements, path: str, quantity: Quantity) -> Array:
    """Rows in which an argument has other numbers than the quantity; none where the function asks for them."""
    place = [leaf.path for leaf in m.subject.leaves].index(path)
    program, ends = m.subject.traces().primal, (quantity.low, quantity.high)
    if program is None or asks_beyond(program, len(m.components(VALUES)), place, ends):
        return np.zeros(m.count, bool)
    return np.asarray(~quantity.has(m.points[place].reshape(m.count, -1)).all(axis=1))


def asks_beyond(program: Program, values: int, place: int, ends: tuple[float, float]) -> bool:
    """Does what gives the value ask for the sign of what an argument is in, or on which side of a number it is that does not lie between these ends?

    A loop or a branch that asks for anything does; what a library function asks within itself does not count.
    """
    low, high = ends
    of = {program.inputs[place]}
    for step in alive(program.steps, program.outputs[:values]):
        if not of.intersection(step.ins):
            continue
        of.update(step.outs)
        if step.call is not None:
            continue
        asks = step.name in _OF_SIGNS and low >= 0
        asks |= any(sub.primitives() & _ASK for sub in step.subs)
        if asks or (step.name in _COMPARE and _is_beyond(program, step, of, low, high)):
            return True
    return False


def _is_beyond(program: Program, step: Step, of: Collection[Slot], low: float, high: float) -> bool:
    """Is it compared with itself, or with a number that is not between the ends?"""
    beside = [slot for slot in step.ins if slot not in of]
    constants = [program.constants[slot] for slot in beside if slot in program.constants]
    numbers = [np.asarray(each, np.float64).ravel() for each in constants]
    return not beside or any(not ((low < n) & (n < high)).all() for n in numbers)
