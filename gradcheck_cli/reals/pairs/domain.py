"""One walk in float64 pairs over many points at once; what stays open is for balls with more bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from gradcheck_cli.reals import rules as plain
from gradcheck_cli.reals.balls.domain import Domain, Flags
from gradcheck_cli.reals.pairs.arithmetic import EPS, Pair, exact
from gradcheck_cli.reals.pairs.numbers import NUMBER, NUMPY, Identities, pair
from gradcheck_cli.reals.rules import scattered
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]

_ITSELF = ("real", "conj")  # of a real number
_NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}
_ROOM = 1 + 2.0**-40
# Sums of so few terms are added one by one: what is exact stays exact.
_FOLDED = 24
# A loop's state whose radius is larger than this, beside it, has not settled: it has been lost.
_SETTLED = 2.0**-40


RULES: Mapping[str, Rule] = {**plain.RULES, **scattered.TABLE}


class Pairs(Domain):
    """One walk's worth of arithmetic in float64 pairs."""

    dtype = NUMBER

    def __init__(
        self,
        batch: int,
        *,
        rules: Mapping[str, Rule] = RULES,
        flags: Flags | None = None,
        rows: Array | None = None,
        identities: Identities | None = None,
    ) -> None:
        super().__init__(batch, rules=rules, flags=flags, rows=rows)
        self.identities = identities or Identities()
        # By the operand's identity, with the operand itself: it stays alive.
        self._memo: dict[tuple[str, int], tuple[Array, Array]] = {}

    def _part(self, rows: Array) -> Pairs:
        return Pairs(
            self.batch, rules=self.rules, flags=self.flags, rows=rows, identities=self.identities
        )

    # -- kinds ------------------------------------------------------------------------

    def _constant(self, array: Array) -> Array:
        wide = np.asarray(array, np.float64)
        return self.identities.numbers(NUMPY.known(wide))

    def from_integers(self, values: Array) -> Array:
        wide = np.asarray(values, np.float64)
        size = np.abs(wide)
        return self.identities.numbers(Pair(wide, np.where(size > 2.0**53, size * (2 * EPS), 0.0)))

    def from_tri(self, tri: Array) -> Array:
        return self.identities.numbers(Pair(tri / YES, np.where(tri == UNKNOWN, 0.5, 0.0)))

    def to_integers(self, x: Array, dtype: Any) -> Array:
        """Truncation, with the point in doubt where two integers are possible."""
        first, last = (np.trunc(end) for end in NUMPY.ends(pair(x)))
        limits = np.iinfo(dtype)
        self._flag(
            self.flags.doubts, ~((first == last) & (first >= limits.min) & (first <= limits.max))
        )
        return np.asarray(np.clip(np.nan_to_num(first), limits.min, limits.max), dtype)

    def to_complex(self, real: Array, imaginary: Array | None = None) -> Array:
        raise NoRealMeaning("complex")

    # -- functions --------------------------------------------------------------------

    def unary(self, op: str, x: Array) -> Array:
        """A function of each number: equal operands give one and the same array."""
        if op in _ITSELF:
            return x
        if op not in NUMPY.unary:
            raise NoRealMeaning(op)
        if (op, id(x)) not in self._memo:
            self._memo[op, id(x)] = x, self.identities.numbers(NUMPY.unary[op](pair(x)))
        return self._memo[op, id(x)][1]

    def complex_unary(self, op: str, x: Array) -> Array:
        raise NoRealMeaning(op)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        if op not in NUMPY.binary:
            raise NoRealMeaning(op)
        if op in ("max", "min"):
            return self._extreme(op, a, b)
        return self.identities.numbers(NUMPY.binary[op](pair(a), pair(b)))

    def complex_binary(self, op: str, a: Array, b: Array) -> Array:
        raise NoRealMeaning(op)

    def special(self, op: str, values: Sequence[Array]) -> Array:
        raise NoRealMeaning(op)

    def integer_pow(self, kind: str, x: Array, n: int) -> Array:
        return self.identities.numbers(NUMPY.power(pair(x), n))

    def _extreme(self, op: str, a: Array, b: Array) -> Array:
        """The larger (smaller) of two: a clear winner stays the number that it is."""
        a, b = np.broadcast_arrays(a, b)
        out = self.identities.numbers(NUMPY.binary[op](pair(a), pair(b)))
        larger, smaller = (a, b) if op == "max" else (b, a)
        truth = _order(larger, smaller)
        return np.where(truth == YES, a, np.where(truth == NO, b, out))

    # -- choice -----------------------------------------------------------------------

    def compare(self, op: str, a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        itself = a["id"] == b["id"]
        equal = exact(pair(a)) & exact(pair(b)) & (a["mid"] == b["mid"])
        self._flag(self.flags.ties, equal & ~itself & np.isfinite(a["mid"]))
        (a_low, a_high), (b_low, b_high) = NUMPY.ends(pair(a)), NUMPY.ends(pair(b))
        below, above, same = a_high < b_low, a_low > b_high, equal | itself
        yes, no = {
            "lt": (below, above | same),
            "le": (below | same, above),
            "gt": (above, below | same),
            "ge": (above | same, below),
            "eq": (same, below | above),
            "ne": (below | above, same),
        }[op]
        return np.where(yes, YES, np.where(no, NO, UNKNOWN)).astype(np.int8)

    def is_finite(self, x: Array) -> Array:
        """True for every real; infinite constants are points of their own."""
        infinite = np.isinf(x["mid"]) & exact(pair(x))
        return np.where(infinite, NO, YES).astype(np.int8)

    def _union(self, a: Array, b: Array) -> Array:
        return self.identities.numbers(NUMPY.union(pair(a), pair(b)))

    # -- reductions -------------------------------------------------------------------

    def reduce(self, op: str, aval: Any, x: Array, axes: tuple[int, ...]) -> Array:
        if not self.holds(x):
            return self.integer_reduce(op, x, axes)
        kept = [a for a in range(x.ndim) if a not in axes]
        shape = tuple(x.shape[a] for a in kept)
        lines = x.transpose(*kept, *axes).reshape(*shape, -1)
        return self._along(op, lines).reshape(x.shape[0], *aval.shape)

    def _along(self, op: str, lines: Array) -> Array:
        """One number of each line, which is the last axis."""
        length = lines.shape[-1]
        if not length:
            return np.broadcast_to(self.neutral_number(op), lines.shape[:-1])
        if op == "add" and length > _FOLDED:
            return self.identities.numbers(_sum(pair(lines)))
        while (length := lines.shape[-1]) > 1:  # by halves
            half = length // 2
            met = self.binary(op, lines[..., :half], lines[..., half : 2 * half])
            lines = np.concatenate([met, lines[..., 2 * half :]], axis=-1)
        return lines[..., 0]

    def accumulate(self, op: str, x: Array, axis: int) -> Array:
        if not self.holds(x):
            return self.integer_accumulate(op, x, axis)
        moved = np.moveaxis(x, axis, -1)
        if not moved.shape[-1]:
            return x
        sums = [moved[..., 0]]
        for k in range(1, moved.shape[-1]):
            sums.append(self.binary(op, sums[-1], moved[..., k]))
        return np.moveaxis(np.stack(sums, axis=-1), -1, axis)

    def arg(self, op: str, x: Array, axis: int) -> Array:
        """First place of the largest (smallest); in doubt where two may be."""
        if not self.holds(x):
            return np.asarray(np.argmax(x, axis) if op == "max" else np.argmin(x, axis))
        moved = np.moveaxis(x, axis, -1)
        place = np.argmax(moved["mid"], -1) if op == "max" else np.argmin(moved["mid"], -1)
        best = np.take_along_axis(moved, place[..., None], -1)
        larger, smaller = (best, moved) if op == "max" else (moved, best)
        truth = _order(larger, smaller)
        others = np.arange(moved.shape[-1]) != place[..., None]
        equal = exact(pair(moved)) & exact(pair(best)) & (moved["mid"] == best["mid"])
        itself = moved["id"] == best["id"]
        self._flag(self.flags.ties, others & equal & ~itself)
        self._flag(self.flags.doubts, others & (truth != YES) & ~equal & ~itself)
        return np.asarray(place)

    def sort(self, values: list[Array], axis: int, keys: int, kinds: Sequence[str]) -> list[Array]:
        batch = max(v.shape[0] for v in values)
        full = [np.moveaxis(np.broadcast_to(v, (batch, *v.shape[1:])), axis, -1) for v in values]
        middles = [v["mid"] if self.holds(v) else v for v in full[:keys]]
        places = np.lexsort(tuple(reversed(middles)), axis=-1)
        done = [np.take_along_axis(v, places, -1) for v in full]
        first = done[0]
        if self.holds(first):
            before, after = first[..., :-1], first[..., 1:]
            equal = exact(pair(before)) & exact(pair(after)) & (before["mid"] == after["mid"])
            itself = before["id"] == after["id"]
            self._flag(self.flags.ties, equal & ~itself)
            self._flag(self.flags.doubts, (_order(after, before) != YES) & ~equal & ~itself)
        return [np.moveaxis(v, -1, axis) for v in done]

    # -- products ---------------------------------------------------------------------

    def matmul(self, aval: Any, a: Array, b: Array) -> Array:
        """However numpy orders n additions, they err by at most (n − 1)·ε·Σ|x|."""
        if aval.kind != "f":
            return np.asarray(np.matmul(a, b))
        (a_mid, a_rad), (b_mid, b_rad) = pair(a), pair(b)
        a_size, b_size = np.abs(a_mid), np.abs(b_mid)
        error = (a.shape[-1] + 2) * 2 * EPS
        rad = np.matmul(a_size, b_rad + error * b_size) + np.matmul(a_rad, b_size + b_rad)
        tiny = np.where(rad > 0, 2.0**-1018, 0.0)  # what underflowed
        return self.identities.numbers(
            NUMPY.within(np.matmul(a_mid, b_mid), rad * _ROOM + tiny * a.shape[-1])
        )

    def algebra(self, step: Any) -> Any:
        """Factorizations are for balls."""
        raise NoRealMeaning(step.name)

    def dft(self, x: Array, axis: int, *, inverse: bool) -> Array:
        raise NoRealMeaning("fft")

    def neutral(self, op: str, aval: Any) -> Any:
        """What changes nothing under a reduction."""
        if aval.kind == "f":
            return self.neutral_number(op)
        limits = {"max": "min", "min": "max"}
        if op in limits and aval.kind == "i":
            return getattr(np.iinfo(aval.dtype), limits[op])
        return {"add": 0, "mul": 1, "max": NO, "min": YES}[op]

    def neutral_number(self, op: str) -> Array:
        return self._constant(np.asarray(_NEUTRAL[op]))

    def combine_numbers(self, op: str, old: Any, new: Any) -> Any:
        """Scattered writes."""
        return self.binary(op, old, new)

    def overlap_rows(self, before: Sequence[Array], after: Sequence[Array]) -> Array:
        """For each point: do two states of a loop agree as far as narrow balls can tell?"""
        same = [_settled(np.broadcast_to(old, new.shape), new) for old, new in zip(before, after, strict=True) if self.holds(new)]  # fmt: skip
        return reduce(np.logical_and, same, np.ones(len(after[0]), bool))


def _order(larger: Array, smaller: Array) -> Array:
    """Is the first number certainly no smaller than the second, certainly smaller, or neither?"""
    (low, high), (other_low, other_high) = NUMPY.ends(pair(larger)), NUMPY.ends(pair(smaller))
    return np.where(low >= other_high, YES, np.where(high < other_low, NO, UNKNOWN))


def _sum(x: Pair) -> Pair:
    """The sum along the last axis."""
    alone = np.sum(x.mid != 0, axis=-1) <= 1  # zeros and one number: nothing is rounded
    mid, rad, sizes = (np.sum(v, axis=-1) for v in (x.mid, x.rad, np.abs(x.mid)))
    error = np.where(alone, 0.0, sizes * (2 * x.mid.shape[-1] * EPS))
    infinite = np.isinf(mid) & (rad == 0)
    return NUMPY.within(mid, np.where(infinite, 0.0, rad * _ROOM + error))


def _settled(old: Array, new: Array) -> Array:
    (low, high), (new_low, new_high) = NUMPY.ends(pair(old)), NUMPY.ends(pair(new))
    hit = (low <= new_high) & (new_low <= high)
    hit &= new["rad"] <= _SETTLED * np.abs(new["mid"])
    return np.asarray(hit.reshape(len(new), -1).all(axis=1))
