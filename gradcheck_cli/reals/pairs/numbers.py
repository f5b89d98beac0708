"""Pairs as elements of one numpy array, so that whatever only moves numbers moves them too.

Each number has an identity: a number that is only moved stays the same one (SEMANTICS C1).
"""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
from scipy import special

from gradcheck_cli.reals.pairs.arithmetic import Arithmetic, Pair

Array = np.ndarray[Any, Any]

NUMBER = np.dtype([("mid", np.float64), ("rad", np.float64), ("id", np.int64)])

NUMPY = Arithmetic(
    np,
    erf=special.erf,
    erf_inv=special.erfinv,
    erfc=special.erfc,
    bits=lambda x: np.ascontiguousarray(x).view(np.uint64),
)


def pair(x: Array) -> Pair:
    """Middles and radii of an array of numbers."""
    return Pair(x["mid"], x["rad"])


class Identities:
    """Makes numbers, each with an identity that none had before."""

    def __init__(self) -> None:
        self._blocks = count()

    def numbers(self, made: Pair) -> Array:
        """New numbers of these middles and radii."""
        mid, rad = np.broadcast_arrays(made.mid, made.rad)
        out = np.empty(mid.shape, NUMBER)
        out["mid"], out["rad"] = mid, rad
        # So few numbers stand in one array that blocks do not meet.
        first = next(self._blocks) << 32
        out["id"] = np.arange(first, first + mid.size).reshape(mid.shape)
        return out
