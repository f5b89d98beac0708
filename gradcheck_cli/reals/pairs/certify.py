"""Many points at once: a program walked in float64 pairs, and which of its rows these decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.reals.pairs.arithmetic import Pair
from gradcheck_cli.reals.pairs.domain import Pairs
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.walk import walk

Array = np.ndarray[Any, Any]

# So many numbers of a program's steps are held at once, at most.
_ROOM = 2**22
_NOTHING = 2.0**-900  # below every number of the formats that are judged by float64


@dataclass(frozen=True, slots=True)
class Bulk:
    """For each output midpoints and radii, rows first; `sure` rows met no open question.

    Where `ties` are told they are decided: two numbers are exactly equal.
    """

    mids: list[Array]
    rads: list[Array]
    sure: Array
    ties: Array

    def narrow(self, goal: int, *, loose: bool = False) -> Array:
        """For each row: is every number decided, or below all that matters beside its neighbours?

        If `loose`, it is enough to know each number beside the largest of its row.
        """
        count = len(self.sure)
        mid = np.concatenate([m.reshape(count, -1) for m in self.mids], axis=1)
        rad = np.concatenate([r.reshape(count, -1) for r in self.rads], axis=1)
        return self.sure & (beside if loose else decided)(mid, rad, goal).all(axis=1)


def decided(mid: Array, rad: Array, goal: int) -> Array:
    """For each number of each row: is it known to `goal` bits, or nothing beside the largest?"""
    with np.errstate(all="ignore"):
        sizes = np.abs(mid)
        tight = (rad <= 2.0**-goal * sizes) | (rad == 0) | ((sizes <= rad) & (rad < _NOTHING))
        nothing = (sizes <= rad) & beside(mid, rad, goal + 16)
        return np.asarray(np.isfinite(mid) & (tight | nothing))


def beside(mid: Array, rad: Array, goal: int) -> Array:
    """For each number of each row: is it known to `goal` bits of the largest (SEMANTICS C2)?"""
    sizes = np.where(np.isfinite(mid), np.abs(mid), 0.0)
    with np.errstate(all="ignore"):
        return np.asarray(rad <= 2.0**-goal * sizes.max(axis=1, initial=0.0)[:, None])


def certify_now(
    program: Program, mids: Sequence[Array], rads: Sequence[Array] | None = None
) -> Bulk:
    """All rows of the program's inputs (exact, or balls), a chunk at a time, and nothing compiled."""
    count = len(mids[0])
    size = max(1, _ROOM // max(1, program.numbers()))
    radii = [np.zeros(np.shape(m)) for m in mids] if rads is None else rads
    parts = [
        _chunk(program, [m[i : i + size] for m in mids], [r[i : i + size] for r in radii])
        for i in range(0, count, size)
    ]
    columns = [list(zip(*lists, strict=True)) for lists in list(zip(*parts, strict=True))[:2]]
    mid, rad = ([np.concatenate(column) for column in each] for each in columns)
    return Bulk(mid, rad, *(np.concatenate([p[k] for p in parts]) for k in (2, 3)))


def _chunk(
    program: Program, mids: Sequence[Array], rads: Sequence[Array]
) -> tuple[list[Array], list[Array], Array, Array]:
    count = len(mids[0])
    domain = Pairs(count)
    with np.errstate(all="ignore"):
        args = [domain.identities.numbers(Pair(*ball)) for ball in zip(mids, rads, strict=True)]
        outs = walk(program, domain, args)
    whole = [np.broadcast_to(out, (count, *out.shape[1:])) for out in outs]
    flags = domain.flags
    return (
        [np.ascontiguousarray(out["mid"]) for out in whole],
        [np.ascontiguousarray(out["rad"]) for out in whole],
        ~(flags.doubts | flags.endless),
        flags.ties,
    )
