"""Rows in which a quantity has numbers that it does not have by its name, and the function does not ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradcheck_cli.inputs.quantities import Quantity, quantity_held_by
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.measure.as_they_are import asks_beyond
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.measurements import Array, Measurements


def far_off(m: Measurements, rows: Sequence[int]) -> dict[str, Quantity]:
    """The arguments that are no quantity any more in some of the rows; none if in one of these all are."""
    far = {leaf.path: _far(m, place, leaf) for place, leaf in enumerate(m.subject.leaves)}
    if not rows or not np.any([each[rows] for each in far.values()], axis=0).all():
        return {}
    held = {leaf.path: quantity_held_by(leaf) for leaf in m.subject.leaves}
    return {path: q for path, q in held.items() if q is not None and far[path].any()}


def _far(m: Measurements, place: int, leaf: Leaf) -> Array:
    quantity, program = quantity_held_by(leaf), m.subject.traces().primal
    none = np.zeros(m.count, bool)
    if quantity is None or program is None:
        return none
    if asks_beyond(program, len(m.components(VALUES)), place, (quantity.low, quantity.high)):
        return none
    return np.asarray(~quantity.has(m.points[place].reshape(m.count, -1)).all(axis=1))
