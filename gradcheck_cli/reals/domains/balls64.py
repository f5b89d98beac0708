"""Certified arithmetic in float64: arrays of midpoint and radius, a whole batch an operation.

What a pair is and how it is computed with stands in `pairs`. What this domain cannot
certify goes to `Balls`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcheck_cli.reals.domains.domain import Domain
from gradcheck_cli.reals.domains.pairs import (
    BINARY,
    EPS,
    PAIR,
    ROOM,
    UNARY,
    add,
    between,
    div,
    exactly,
    fold,
    high,
    high_end,
    larger,
    low,
    low_end,
    mul,
    pair,
    power,
    rounded,
    smaller,
    total,
)
from gradcheck_cli.reals.tri import NO, UNKNOWN, YES

Array = np.ndarray[Any, Any]

_SETTLED = 2.0**-40


class Balls64(Domain):
    """See the module; only real numbers, and only what numpy does well."""

    dtype = PAIR

    def _part(self, rows: Array) -> Balls64:
        return Balls64(self.batch, flags=self.flags, rows=rows)

    def _constant(self, array: Array) -> Array:
        return pair(array.astype(np.float64))

    def from_integers(self, values: Array) -> Array:
        wide = np.asarray(values).astype(np.float64)
        return pair(wide, np.where(np.abs(wide) > 2.0**53, np.abs(wide) * 2 * EPS, 0.0))

    def from_tri(self, tri: Array) -> Array:
        return pair(tri / 2.0, np.where(tri == UNKNOWN, 0.5, 0.0))

    def to_complex(self, real: Array, imaginary: Array | None = None) -> Array:
        raise _refused("complex")

    def to_integers(self, x: Array, dtype: Any) -> Array:
        """Truncation, with the point in doubt where two integers are possible."""
        exact = x["rad"] == 0
        lower = np.trunc(np.where(exact, x["mid"], low(x)))
        upper = np.trunc(np.where(exact, x["mid"], high(x)))
        self._flag(self.flags.doubts, ~(lower == upper))
        with np.errstate(invalid="ignore"):
            return np.nan_to_num(lower).astype(np.int64).astype(dtype)

    # -- elementwise --------------------------------------------------------------------

    def unary(self, op: str, x: Array) -> Array:
        if op not in UNARY:
            raise _refused(op)
        with np.errstate(all="ignore"):
            return UNARY[op](x)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        if op not in BINARY:
            raise _refused(op)
        with np.errstate(all="ignore"):
            return BINARY[op](a, b)

    def integer_pow(self, kind: str, x: Array, n: int) -> Array:
        with np.errstate(all="ignore"):
            raised = power(x, abs(n))
            return raised if n >= 0 else div(pair(np.ones(x.shape)), raised)

    def special(self, op: str, values: Sequence[Array]) -> Array:
        raise _refused(op)

    # -- comparison and choice ------------------------------------------------------------

    def compare(self, op: str, a: Array, b: Array) -> Array:
        if a is b:  # identity of values (SEMANTICS C1)
            return np.full(a.shape, YES if op in ("eq", "le", "ge") else NO, np.int8)
        a, b = np.broadcast_arrays(a, b)
        exact = (a["rad"] == 0) & (b["rad"] == 0)
        below = np.where(exact, a["mid"] < b["mid"], high(a) < low(b))
        above = np.where(exact, a["mid"] > b["mid"], low(a) > high(b))
        same = exact & (a["mid"] == b["mid"])
        yes, no = {
            "lt": (below, above | same),
            "le": (below | same, above),
            "gt": (above, below | same),
            "ge": (above | same, below),
            "eq": (same, below | above),
            "ne": (below | above, same),
        }[op]
        self._flag(self.flags.ties, same & np.isfinite(a["mid"]))
        return np.where(yes, YES, np.where(no, NO, UNKNOWN)).astype(np.int8)

    def is_finite(self, x: Array) -> Array:
        return np.where(np.isinf(x["mid"]), NO, YES).astype(np.int8)

    def _union(self, a: Array, b: Array) -> Array:
        return between(np.minimum(low(a), low(b)), np.maximum(high(a), high(b)))

    # -- reductions -------------------------------------------------------------------------

    def reduce(self, op: str, aval: Any, x: Array, axes: tuple[int, ...]) -> Array:
        if not self.holds(x):
            return self.integer_reduce(op, x, axes)
        shape = (x.shape[0], *aval.shape)
        count = int(np.prod([x.shape[a] for a in axes], dtype=int))
        if not count:
            return np.full(shape, self.neutral(op, aval), PAIR)
        with np.errstate(all="ignore"):
            if op == "add":
                return total(x, axes, count).reshape(shape)
            if op in ("max", "min"):
                pick = np.max if op == "max" else np.min
                return exactly(pick(low_end(x), axis=axes), pick(high_end(x), axis=axes)).reshape(
                    shape
                )
            if op == "mul":
                return fold(x, axes, mul).reshape(shape)
        raise _refused(f"reduction by {op}")

    def accumulate(self, op: str, x: Array, axis: int) -> Array:
        if not self.holds(x):
            return self.integer_accumulate(op, x, axis)
        step = {"add": add, "mul": mul, "max": larger, "min": smaller}.get(op)
        if step is None:
            raise _refused(f"running {op}")
        moved = np.moveaxis(x, axis, 0)
        with np.errstate(all="ignore"):
            rows = [moved[0]]
            for row in moved[1:]:
                rows.append(step(rows[-1], row))
        return np.moveaxis(np.stack(rows), 0, axis)

    def arg(self, op: str, x: Array, axis: int) -> Array:
        """The place of the largest middle; in doubt where another might be larger."""
        if not self.holds(x):
            return np.asarray(np.argmax(x, axis) if op == "max" else np.argmin(x, axis))
        sign = 1.0 if op == "max" else -1.0
        place = np.argmax(sign * x["mid"], axis)
        best = np.take_along_axis(x, np.expand_dims(place, axis), axis)
        rivals = sign * (x["mid"] - best["mid"]) + x["rad"] + best["rad"] >= 0
        exact = (x["rad"] == 0) & (best["rad"] == 0)
        self._flag(self.flags.doubts, (rivals & ~exact).sum(axis) > 1)
        self._flag(self.flags.ties, (rivals & exact).sum(axis) > 1)
        return np.asarray(place)

    def sort(self, values: list[Array], axis: int, keys: int, kinds: Sequence[str]) -> list[Array]:
        """By one key; neighbours that overlap put their point in doubt."""
        if keys != 1 or not self.holds(values[0]):
            raise _refused("sort by several keys")
        key = values[0]
        order = np.argsort(key["mid"], axis=axis, kind="stable")
        full = [np.broadcast_to(v, key.shape) for v in values]
        done = [np.take_along_axis(v, order, axis) for v in full]
        lines = np.moveaxis(done[0], axis, -1)
        close = ~(high(lines[..., :-1]) < low(lines[..., 1:]))
        exact = (lines["rad"][..., :-1] == 0) & (lines["rad"][..., 1:] == 0)
        self._flag(self.flags.doubts, close & ~exact)
        self._flag(self.flags.ties, exact & (lines["mid"][..., :-1] == lines["mid"][..., 1:]))
        return done

    def matmul(self, aval: Any, a: Array, b: Array) -> Array:
        if not self.holds(a):
            return np.asarray(np.matmul(a, b))
        count = a.shape[-1]
        with np.errstate(all="ignore"):
            sizes = np.abs(a["mid"]) @ np.abs(b["mid"])
            rad = np.abs(a["mid"]) @ b["rad"] + a["rad"] @ (np.abs(b["mid"]) + b["rad"])
            return rounded(a["mid"] @ b["mid"], rad * ROOM**count + sizes * (2 * (count + 2) * EPS))

    def combine(self, op: str, old: Any, new: Any) -> Any:
        if op == "set":
            return new
        return self.binary(op, np.asarray(old), np.asarray(new))

    def neutral(self, op: str, aval: Any) -> Any:
        value = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[op]
        return pair(value)[()]

    def algebra(self, step: Any) -> Any:
        raise _refused(step.name)

    def overlap_rows(self, before: Sequence[Array], after: Sequence[Array]) -> Array:
        same = np.ones(len(after[0]), bool)
        for old, new in zip(before, after, strict=True):
            if self.holds(new):
                touch = (high(new) >= low(old)) & (high(old) >= low(new))
                narrow = new["rad"] <= _SETTLED * np.abs(new["mid"])
                same &= (touch & narrow).reshape(len(new), -1).all(axis=1)
        return same


def _refused(name: str) -> Exception:
    from gradcheck_cli.reals.walk import NotCovered

    return NotCovered(name)
