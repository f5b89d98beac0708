"""Does a function hand its input on: each element that comes out one that went in, or a constant?"""

from __future__ import annotations

import numpy as np

from gradcheck_cli.measure.components import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.measure.states import REGULAR


def origins(m: Measurements) -> Array | None:
    """For each element that comes out, which that went in it is; -1 for a constant. None: it is none of them."""
    rows = m.base_rows
    rows = rows[(m.reference.states(VALUES)[rows] == REGULAR).all(axis=1)]
    given = columns(m.points, m.count)[rows]
    out = m.reference.middle(VALUES)[rows]
    if len(rows) < 2:
        return None
    whence = np.full(out.shape[1], -1)
    for k in range(out.shape[1]):
        equal = np.flatnonzero((given == out[:, k : k + 1]).all(axis=0))
        if len(equal):
            whence[k] = equal[0]
        elif (out[:, k] != out[0, k]).any():
            return None
    return whence if (whence >= 0).any() else None


def in_place(whence: Array, m: Measurements) -> bool:
    """Is each output one of the arguments as it is?"""
    starts = np.cumsum([0, *(len(elements) for _, elements in m.components(GRADIENTS))])
    place = 0
    for shape, elements in m.components(VALUES):
        part = whence[place : place + len(elements)]
        place += len(elements)
        whole = any(
            leaf.shape == shape and np.array_equal(part, np.arange(start, start + len(elements)))
            for leaf, start in zip(m.subject.leaves, starts, strict=False)
        )
        if not whole:
            return False
    return True
