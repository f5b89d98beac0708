"""Certified arithmetic in float64: arrays of midpoint and radius, a whole batch an operation.

Every operation adds its own rounding to the radius, so an exact result never leaves its
ball; numpy's elementary functions are trusted to a few units in the last place (the
tests hold them to flint). What this cannot certify goes to `Balls`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcheck_cli.reals.domains.domain import Domain
from gradcheck_cli.reals.tri import NO, UNKNOWN, YES

Array = np.ndarray[Any, Any]

PAIR = np.dtype([("mid", "f8"), ("rad", "f8")])

_EPS = 2.0**-53
_TINY = 2.0**-1060  # a denormal step, with room
_ROOM = 1 + 2.0**-48  # the radius is computed in floats too
_FUNCTION_ULPS = 8
_SETTLED = 2.0**-40


def pair(mid: Any, rad: Any = 0.0) -> Array:
    """Balls; one whose middle or radius is no number knows nothing."""
    mid, rad = np.broadcast_arrays(np.asarray(mid, float), np.asarray(rad, float))
    out = np.empty(mid.shape, PAIR)
    lost = np.isnan(mid) | np.isnan(rad) | np.isposinf(rad) | (np.isinf(mid) & (rad != 0))
    out["mid"] = np.where(lost, np.nan, mid)
    out["rad"] = np.where(lost, np.inf, rad)
    return out


def _rounded(mid: Array, rad: Array) -> Array:
    """The ball of a result that was rounded once; what overflowed is lost."""
    lost = ~np.isfinite(mid)
    out = pair(mid, rad * _ROOM + np.abs(mid) * (2 * _EPS) + _TINY)
    out["mid"][lost], out["rad"][lost] = np.nan, np.inf
    return out


def low(x: Array) -> Array:
    return np.asarray(np.nextafter(x["mid"] - x["rad"], -np.inf))


def high(x: Array) -> Array:
    return np.asarray(np.nextafter(x["mid"] + x["rad"], np.inf))


def between(lower: Array, upper: Array) -> Array:
    """The ball around an interval."""
    mid = lower / 2 + upper / 2
    return _rounded(mid, np.maximum(upper - mid, mid - lower))


class Balls64(Domain):
    """See the module; only real numbers, and only what numpy does well."""

    dtype = PAIR

    def _part(self, rows: Array) -> Balls64:
        return Balls64(self.batch, flags=self.flags, rows=rows)

    def _constant(self, array: Array) -> Array:
        return pair(array.astype(np.float64))

    def from_integers(self, values: Array) -> Array:
        wide = np.asarray(values).astype(np.float64)
        return pair(wide, np.where(np.abs(wide) > 2.0**53, np.abs(wide) * 2 * _EPS, 0.0))

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
        if op not in _UNARY:
            raise _refused(op)
        with np.errstate(all="ignore"):
            return _UNARY[op](x)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        if op not in _BINARY:
            raise _refused(op)
        with np.errstate(all="ignore"):
            return _BINARY[op](a, b)

    def integer_pow(self, kind: str, x: Array, n: int) -> Array:
        with np.errstate(all="ignore"):
            power = _power(x, abs(n))
            return power if n >= 0 else _div(pair(np.ones(x.shape)), power)

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
                return _sum(x, axes, count).reshape(shape)
            if op in ("max", "min"):
                pick = np.max if op == "max" else np.min
                return _exactly(pick(_low(x), axis=axes), pick(_high(x), axis=axes)).reshape(shape)
            if op == "mul":
                return _fold(x, axes, _mul).reshape(shape)
        raise _refused(f"reduction by {op}")

    def accumulate(self, op: str, x: Array, axis: int) -> Array:
        if not self.holds(x):
            return self.integer_accumulate(op, x, axis)
        step = {"add": _add, "mul": _mul, "max": _max, "min": _min}.get(op)
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
            return _rounded(
                a["mid"] @ b["mid"], rad * _ROOM**count + sizes * (2 * (count + 2) * _EPS)
            )

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


# -- pieces ---------------------------------------------------------------------------------


def _refused(name: str) -> Exception:
    from gradcheck_cli.reals.walk import NotCovered

    return NotCovered(name)


def _low(x: Array) -> Array:
    return np.where(x["rad"] == 0, x["mid"], low(x))


def _high(x: Array) -> Array:
    return np.where(x["rad"] == 0, x["mid"], high(x))


def _exactly(lower: Array, upper: Array) -> Array:
    """An interval as a ball; one point stays one."""
    out = between(lower, upper)
    same = lower == upper
    return np.where(same, pair(lower), out)


def _add(a: Array, b: Array) -> Array:
    return _with_infinities(a, b, a["mid"] + b["mid"], a["rad"] + b["rad"])


def _sub(a: Array, b: Array) -> Array:
    return _with_infinities(a, b, a["mid"] - b["mid"], a["rad"] + b["rad"])


def _with_infinities(a: Array, b: Array, mid: Array, rad: Array) -> Array:
    """Sums: an infinite operand is an exact point, and so is its sum with a number."""
    out = _rounded(mid, rad)
    whole = (mid == np.round(mid)) & (np.abs(mid) < 2.0**52) & (rad == 0)
    whole &= (a["mid"] == np.round(a["mid"])) & (b["mid"] == np.round(b["mid"]))
    infinite = (np.isinf(a["mid"]) | np.isinf(b["mid"])) & ~np.isnan(mid) & np.isfinite(rad)
    return np.where(whole | infinite, pair(mid, np.where(whole | infinite, 0.0, rad)), out)


def _mul(a: Array, b: Array) -> Array:
    rad = np.abs(a["mid"]) * b["rad"] + a["rad"] * (np.abs(b["mid"]) + b["rad"])
    out = _rounded(a["mid"] * b["mid"], rad)
    for x, y in ((a, b), (b, a)):  # 0 and ±1 change nothing, and round nothing
        exact = x["rad"] == 0
        out = np.where(exact & (x["mid"] == 0) & np.isfinite(y["mid"]), pair(0.0), out)
        out = np.where(exact & (x["mid"] == 1), y, out)
        out = np.where(exact & (x["mid"] == -1), _neg(y), out)
    return out


def _div(a: Array, b: Array) -> Array:
    size = np.abs(b["mid"])
    least = size - b["rad"]
    mid = a["mid"] / b["mid"]
    rad = (a["rad"] + np.abs(mid) * b["rad"]) / np.where(least > 0, least * (1 - 4 * _EPS), np.nan)
    out = _rounded(mid, rad)
    out = np.where((a["rad"] == 0) & (a["mid"] == 0) & (least > 0), pair(0.0), out)
    return np.where(np.isinf(b["mid"]) & np.isfinite(a["mid"]), pair(0.0), out)


def _neg(x: Array) -> Array:
    return pair(-x["mid"], x["rad"])


def _max(a: Array, b: Array) -> Array:
    return _exactly(np.maximum(_low(a), _low(b)), np.maximum(_high(a), _high(b)))


def _min(a: Array, b: Array) -> Array:
    return _exactly(np.minimum(_low(a), _low(b)), np.minimum(_high(a), _high(b)))


def _power(x: Array, n: int) -> Array:
    """By squaring; an even power has no negative part."""
    out, square = pair(np.ones(x.shape)), x
    while n:
        if n & 1:
            out = _mul(out, square)
        n >>= 1
        if n:
            square = _mul(square, square)
    return out


def _pow(a: Array, b: Array) -> Array:
    """xʸ for x > 0, and where y is 0, 1 or 2."""
    out = _UNARY["exp"](_mul(b, _UNARY["log"](a)))
    exact = b["rad"] == 0
    out = np.where(exact & (b["mid"] == 2), _mul(a, a), out)
    out = np.where(exact & (b["mid"] == 1), a, out)
    return np.where(exact & (b["mid"] == 0), pair(1.0), out)


def _sum(x: Array, axes: tuple[int, ...], count: int) -> Array:
    """All orders of adding err by at most (n − 1)·ε·Σ|x|."""
    mid, rad = x["mid"].sum(axis=axes), x["rad"].sum(axis=axes)
    sizes = np.abs(x["mid"]).sum(axis=axes)
    infinite = np.isinf(x["mid"]).any(axis=axes) & ~np.isnan(mid)
    out = _rounded(mid, rad * (1 + count * 4 * _EPS) + sizes * (2 * count * _EPS))
    alone = (x["mid"] != 0).sum(axis=axes) <= 1  # zeros and one number: nothing is rounded
    exact = alone & (rad == 0) & np.isfinite(mid)
    return np.where(infinite | exact, pair(mid), out)


def _fold(x: Array, axes: tuple[int, ...], step: Callable[[Array, Array], Array]) -> Array:
    moved = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *_left(x.shape, axes))
    out: Array = moved[0]
    for row in moved[1:]:
        out = step(out, row)
    return out


def narrow(balls: Array, goal: int) -> Array:
    """For each row: is every ball decided, or below all that matters beside its neighbours?"""
    count = len(balls)
    mid, rad = balls["mid"].reshape(count, -1), balls["rad"].reshape(count, -1)
    with np.errstate(all="ignore"):
        sizes = np.abs(mid)
        largest = np.where(np.isfinite(sizes), sizes, 0.0).max(axis=1, initial=0.0)[:, None]
        tight = (rad <= 2.0**-goal * sizes) | (rad == 0)
        nothing = (sizes <= rad) & (rad < largest * 2.0 ** (-goal - 16))
        return np.asarray((np.isfinite(mid) & (tight | nothing)).all(axis=1))


def _left(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def _rising(
    function: Callable[[Array], Array], ulps: int = _FUNCTION_ULPS
) -> Callable[[Array], Array]:
    """An increasing function: its ends bound it."""

    def ball(x: Array) -> Array:
        mid = function(x["mid"])
        point = x["rad"] == 0
        lower = np.where(point, mid, function(low(x)))
        upper = np.where(point, mid, function(high(x)))
        size = np.maximum(np.abs(lower), np.abs(upper))
        out = _rounded(mid, np.maximum(upper - mid, mid - lower) + size * (2 * ulps * _EPS))
        return np.where(np.isinf(x["mid"]) & point, pair(mid), out)

    return ball


def _steps(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A step function: exact where both ends agree."""

    def ball(x: Array) -> Array:
        return _exactly(function(_low(x)), function(_high(x)))

    return ball


def _wave(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Slope at most one, range [−1, 1]."""

    def ball(x: Array) -> Array:
        mid = function(x["mid"])
        return pair(mid, np.minimum(x["rad"], 2.0) * _ROOM + 2 * _FUNCTION_ULPS * _EPS)

    return ball


def _abs(x: Array) -> Array:
    crosses = np.abs(x["mid"]) < x["rad"]
    top = np.abs(x["mid"]) + x["rad"]
    return np.where(
        crosses, between(np.zeros_like(top), top * _ROOM), pair(np.abs(x["mid"]), x["rad"])
    )


def _sign(x: Array) -> Array:
    return _exactly(np.sign(_low(x)), np.sign(_high(x)))


def _cosh(x: Array) -> Array:
    return _rising(np.cosh)(_abs(x))


def _logistic(x: Array) -> Array:
    one = pair(np.ones(x.shape))
    return _div(one, _add(one, _UNARY["exp"](_neg(x))))


_UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": _abs,
    "asinh": _rising(np.arcsinh),
    "atan": _rising(np.arctan),
    "cbrt": _rising(np.cbrt),
    "ceil": _steps(np.ceil),
    "conj": lambda x: x,
    "cos": _wave(np.cos),
    "cosh": _cosh,
    "exp": _rising(np.exp),
    "exp2": _rising(np.exp2),
    "expm1": _rising(np.expm1),
    "floor": _steps(np.floor),
    "log": _rising(np.log),
    "log1p": _rising(np.log1p),
    "logistic": _logistic,
    "neg": _neg,
    "real": lambda x: x,
    "round": _steps(np.rint),
    "rsqrt": lambda x: _div(pair(np.ones(x.shape)), _rising(np.sqrt)(x)),
    "sign": _sign,
    "sin": _wave(np.sin),
    "sinh": _rising(np.sinh),
    "sqrt": _rising(np.sqrt),
    "tan": lambda x: _div(_wave(np.sin)(x), _wave(np.cos)(x)),
    "tanh": _rising(np.tanh),
}
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": _add,
    "div": _div,
    "max": _max,
    "min": _min,
    "mul": _mul,
    "pow": _pow,
    "sub": _sub,
}
