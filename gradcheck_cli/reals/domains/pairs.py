"""Pairs of midpoint and radius in float64, as arrays: the scalar side of `Balls64`.

Every operation adds its own rounding to the radius, so an exact result never leaves its
ball; numpy's elementary functions are trusted to a few units in the last place (the
tests hold them to flint).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PAIR = np.dtype([("mid", "f8"), ("rad", "f8")])

EPS = 2.0**-53
_TINY = 2.0**-1060  # a denormal step, with room
ROOM = 1 + 2.0**-48  # the radius is computed in floats too
_FUNCTION_ULPS = 8


def pair(mid: Any, rad: Any = 0.0) -> Array:
    """Balls; one whose middle or radius is no number knows nothing."""
    mid, rad = np.broadcast_arrays(np.asarray(mid, float), np.asarray(rad, float))
    out = np.empty(mid.shape, PAIR)
    lost = np.isnan(mid) | np.isnan(rad) | np.isposinf(rad) | (np.isinf(mid) & (rad != 0))
    out["mid"] = np.where(lost, np.nan, mid)
    out["rad"] = np.where(lost, np.inf, rad)
    return out


def rounded(mid: Array, rad: Array) -> Array:
    """The ball of a result that was rounded once; what overflowed is lost."""
    lost = ~np.isfinite(mid)
    out = pair(mid, rad * ROOM + np.abs(mid) * (2 * EPS) + _TINY)
    out["mid"][lost], out["rad"][lost] = np.nan, np.inf
    return out


def low(x: Array) -> Array:
    return np.asarray(np.nextafter(x["mid"] - x["rad"], -np.inf))


def high(x: Array) -> Array:
    return np.asarray(np.nextafter(x["mid"] + x["rad"], np.inf))


def between(lower: Array, upper: Array) -> Array:
    """The ball around an interval."""
    mid = lower / 2 + upper / 2
    return rounded(mid, np.maximum(upper - mid, mid - lower))


def low_end(x: Array) -> Array:
    return np.where(x["rad"] == 0, x["mid"], low(x))


def high_end(x: Array) -> Array:
    return np.where(x["rad"] == 0, x["mid"], high(x))


def exactly(lower: Array, upper: Array) -> Array:
    """An interval as a ball; one point stays one."""
    out = between(lower, upper)
    same = lower == upper
    return np.where(same, pair(lower), out)


def add(a: Array, b: Array) -> Array:
    return _with_infinities(a, b, a["mid"] + b["mid"], a["rad"] + b["rad"])


def _sub(a: Array, b: Array) -> Array:
    return _with_infinities(a, b, a["mid"] - b["mid"], a["rad"] + b["rad"])


def _with_infinities(a: Array, b: Array, mid: Array, rad: Array) -> Array:
    """Sums: an infinite operand is an exact point, and so is its sum with a number."""
    out = rounded(mid, rad)
    whole = (mid == np.round(mid)) & (np.abs(mid) < 2.0**52) & (rad == 0)
    whole &= (a["mid"] == np.round(a["mid"])) & (b["mid"] == np.round(b["mid"]))
    infinite = (np.isinf(a["mid"]) | np.isinf(b["mid"])) & ~np.isnan(mid) & np.isfinite(rad)
    return np.where(whole | infinite, pair(mid, np.where(whole | infinite, 0.0, rad)), out)


def mul(a: Array, b: Array) -> Array:
    rad = np.abs(a["mid"]) * b["rad"] + a["rad"] * (np.abs(b["mid"]) + b["rad"])
    out = rounded(a["mid"] * b["mid"], rad)
    for x, y in ((a, b), (b, a)):  # 0 and ±1 change nothing, and round nothing
        exact = x["rad"] == 0
        out = np.where(exact & (x["mid"] == 0) & np.isfinite(y["mid"]), pair(0.0), out)
        out = np.where(exact & (x["mid"] == 1), y, out)
        out = np.where(exact & (x["mid"] == -1), _neg(y), out)
    return out


def div(a: Array, b: Array) -> Array:
    size = np.abs(b["mid"])
    least = size - b["rad"]
    mid = a["mid"] / b["mid"]
    rad = (a["rad"] + np.abs(mid) * b["rad"]) / np.where(least > 0, least * (1 - 4 * EPS), np.nan)
    out = rounded(mid, rad)
    out = np.where((a["rad"] == 0) & (a["mid"] == 0) & (least > 0), pair(0.0), out)
    return np.where(np.isinf(b["mid"]) & np.isfinite(a["mid"]), pair(0.0), out)


def _neg(x: Array) -> Array:
    return pair(-x["mid"], x["rad"])


def larger(a: Array, b: Array) -> Array:
    return exactly(np.maximum(low_end(a), low_end(b)), np.maximum(high_end(a), high_end(b)))


def smaller(a: Array, b: Array) -> Array:
    return exactly(np.minimum(low_end(a), low_end(b)), np.minimum(high_end(a), high_end(b)))


def power(x: Array, n: int) -> Array:
    """By squaring; an even power has no negative part."""
    out, square = pair(np.ones(x.shape)), x
    while n:
        if n & 1:
            out = mul(out, square)
        n >>= 1
        if n:
            square = mul(square, square)
    return out


def _pow(a: Array, b: Array) -> Array:
    """xʸ for x > 0, and where y is 0, 1 or 2."""
    out = UNARY["exp"](mul(b, UNARY["log"](a)))
    exact = b["rad"] == 0
    out = np.where(exact & (b["mid"] == 2), mul(a, a), out)
    out = np.where(exact & (b["mid"] == 1), a, out)
    return np.where(exact & (b["mid"] == 0), pair(1.0), out)


def total(x: Array, axes: tuple[int, ...], count: int) -> Array:
    """All orders of adding err by at most (n − 1)·ε·Σ|x|."""
    mid, rad = x["mid"].sum(axis=axes), x["rad"].sum(axis=axes)
    sizes = np.abs(x["mid"]).sum(axis=axes)
    infinite = np.isinf(x["mid"]).any(axis=axes) & ~np.isnan(mid)
    out = rounded(mid, rad * (1 + count * 4 * EPS) + sizes * (2 * count * EPS))
    alone = (x["mid"] != 0).sum(axis=axes) <= 1  # zeros and one number: nothing is rounded
    exact = alone & (rad == 0) & np.isfinite(mid)
    return np.where(infinite | exact, pair(mid), out)


def fold(x: Array, axes: tuple[int, ...], step: Callable[[Array, Array], Array]) -> Array:
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
        out = rounded(mid, np.maximum(upper - mid, mid - lower) + size * (2 * ulps * EPS))
        return np.where(np.isinf(x["mid"]) & point, pair(mid), out)

    return ball


def _steps(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A step function: exact where both ends agree."""

    def ball(x: Array) -> Array:
        return exactly(function(low_end(x)), function(high_end(x)))

    return ball


def _wave(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Slope at most one, range [−1, 1]."""

    def ball(x: Array) -> Array:
        mid = function(x["mid"])
        return pair(mid, np.minimum(x["rad"], 2.0) * ROOM + 2 * _FUNCTION_ULPS * EPS)

    return ball


def _abs(x: Array) -> Array:
    crosses = np.abs(x["mid"]) < x["rad"]
    top = np.abs(x["mid"]) + x["rad"]
    return np.where(
        crosses, between(np.zeros_like(top), top * ROOM), pair(np.abs(x["mid"]), x["rad"])
    )


def _sign(x: Array) -> Array:
    return exactly(np.sign(low_end(x)), np.sign(high_end(x)))


def _cosh(x: Array) -> Array:
    return _rising(np.cosh)(_abs(x))


def _logistic(x: Array) -> Array:
    one = pair(np.ones(x.shape))
    return div(one, add(one, UNARY["exp"](_neg(x))))


UNARY: dict[str, Callable[[Array], Array]] = {
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
    "rsqrt": lambda x: div(pair(np.ones(x.shape)), _rising(np.sqrt)(x)),
    "sign": _sign,
    "sin": _wave(np.sin),
    "sinh": _rising(np.sinh),
    "sqrt": _rising(np.sqrt),
    "tan": lambda x: div(_wave(np.sin)(x), _wave(np.cos)(x)),
    "tanh": _rising(np.tanh),
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": add,
    "div": div,
    "max": larger,
    "min": smaller,
    "mul": mul,
    "pow": _pow,
    "sub": _sub,
}
