"""Rows in which a quantity has numbers that it does not have by its name, and the function does not ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.inputs.quantities import Quantity, quantity_held_by
from gradcheck_cli.measure.as_they_are import asks_beyond
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Array, Measurements


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
