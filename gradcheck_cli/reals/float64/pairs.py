"""Pairs of midpoint and radius in float64, as XLA computes with them: the scalar side of `Balls64`.

Every operation adds its own rounding to the radius, so an exact result never leaves its
ball. XLA's elementary functions are trusted to a few units in the last place (the tests
hold them to flint). A pair whose radius is infinite knows nothing; a radius is never NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

Array = Any  # a jax.Array, mostly a traced one


class Pair(NamedTuple):
    """Numbers known to lie within `rad` of `mid`; an infinite one of radius 0 is exact."""

    mid: Array
    rad: Array


EPS = 2.0**-53
ULP = 2.0**-52
_TINY = 2.0**-1018  # above all that XLA may flush to zero
_ROOM = 1 + 2.0**-48  # the radius is computed in floats too
_SHORT = np.uint64((1 << 29) - 1)  # the bits that a float of 24 digits does not have
_SAFE = 2.0**-900  # results above this have not underflowed, which XLA may flush to zero


def known(mid: Array) -> Pair:
    """Exact numbers."""
    mid = jnp.asarray(mid, jnp.float64)
    return Pair(mid, jnp.zeros_like(mid))


def within(mid: Array, rad: Array) -> Pair:
    """A ball; a radius that is no number is infinite."""
    return Pair(mid, jnp.where(rad >= 0, rad, jnp.inf))


def rounded(mid: Array, rad: Array, ulps: Any = 0.5) -> Pair:
    """The ball of a result that is good to some ulps (default: rounded once)."""
    return within(mid, rad * _ROOM + jnp.abs(mid) * (2 * ulps * ULP) + _TINY)


def low(x: Pair) -> Array:
    return lax.nextafter(x.mid - x.rad, jnp.full_like(x.mid, -jnp.inf))


def high(x: Pair) -> Array:
    return lax.nextafter(x.mid + x.rad, jnp.full_like(x.mid, jnp.inf))


def exact(x: Pair) -> Array:
    return x.rad == 0


def between(lower: Array, upper: Array) -> Pair:
    """The ball around an interval; one point stays one."""
    mid = lower / 2 + upper / 2
    same = lower == upper
    around = rounded(mid, jnp.maximum(upper - mid, mid - lower))
    return Pair(jnp.where(same, lower, around.mid), jnp.where(same, 0.0, around.rad))


def ends(x: Pair) -> tuple[Array, Array]:
    return jnp.where(exact(x), x.mid, low(x)), jnp.where(exact(x), x.mid, high(x))


def where(which: Array, yes: Pair, no: Pair) -> Pair:
    return Pair(jnp.where(which, yes.mid, no.mid), jnp.where(which, yes.rad, no.rad))


def union(a: Pair, b: Pair) -> Pair:
    lower = jnp.minimum(ends(a)[0], ends(b)[0])
    return between(lower, jnp.maximum(ends(a)[1], ends(b)[1]))


# -- arithmetic ---------------------------------------------------------------------------


def neg(x: Pair) -> Pair:
    return Pair(-x.mid, x.rad)


def add(a: Pair, b: Pair) -> Pair:
    """The rounding of a sum is itself a float: often it is 0."""
    mid = a.mid + b.mid
    back = mid - a.mid
    error = jnp.abs((a.mid - (mid - back)) + (b.mid - back))
    rad = a.rad + b.rad
    sure = (rad == 0) & (error == 0) & ((jnp.abs(mid) > _SAFE) | (a.mid == -b.mid))
    infinite = (jnp.isinf(a.mid) | jnp.isinf(b.mid)) & (rad == 0) & ~jnp.isnan(mid)
    return within(mid, jnp.where(sure | infinite, 0.0, (rad + error) * _ROOM + _TINY))


def sub(a: Pair, b: Pair) -> Pair:
    return add(a, neg(b))


def mul(a: Pair, b: Pair) -> Pair:
    """Zero times anything is exact, and so are products of numbers with few digits."""
    mid = a.mid * b.mid
    rad = jnp.abs(a.mid) * b.rad + a.rad * (jnp.abs(b.mid) + b.rad)
    zero = ((a.mid == 0) & exact(a) & jnp.isfinite(b.rad)) | (
        (b.mid == 0) & exact(b) & jnp.isfinite(a.rad)
    )
    few = exact(a) & exact(b) & _short(a.mid) & _short(b.mid) & (jnp.abs(mid) > _SAFE)
    out = rounded(mid, rad)
    return Pair(out.mid, jnp.where((zero | few) & jnp.isfinite(mid), 0.0, out.rad))


def _short(x: Array) -> Array:
    """No more digits than a float32 has."""
    return (lax.bitcast_convert_type(x, jnp.uint64) & _SHORT) == 0


def div(a: Pair, b: Pair) -> Pair:
    least = (jnp.abs(b.mid) - b.rad) * (1 - 4 * EPS)
    mid = a.mid / b.mid
    rad = jnp.where(least > 0, (a.rad + jnp.abs(mid) * b.rad) / least, jnp.inf)
    out = rounded(mid, rad)
    nothing = (a.mid == 0) & exact(a) & (least > 0)
    nothing |= jnp.isinf(b.mid) & exact(b) & jnp.isfinite(a.mid) & jnp.isfinite(a.rad)
    return where(nothing, Pair(jnp.zeros_like(mid), jnp.zeros_like(mid)), out)


def larger(a: Pair, b: Pair) -> Pair:
    """The maximum moves no further than its operands do; a clear winner stays itself."""
    apart = a.mid - b.mid
    reach = (a.rad + b.rad) * _ROOM
    rad = jnp.where(-apart > reach, b.rad, jnp.maximum(a.rad, b.rad))
    return Pair(jnp.maximum(a.mid, b.mid), jnp.where(apart > reach, a.rad, rad))


def smaller(a: Pair, b: Pair) -> Pair:
    return neg(larger(neg(a), neg(b)))


def power(x: Pair, n: int) -> Pair:
    """By squaring."""
    if n < 0:
        return div(known(jnp.ones_like(x.mid)), power(x, -n))
    if n < 2:
        return x if n else known(jnp.ones_like(x.mid))
    half = power(x, n // 2)
    return mul(mul(half, half), x) if n % 2 else mul(half, half)


# -- functions ------------------------------------------------------------------------------

_LN2 = float(np.log(2.0))


def _grown(rate: Array) -> Array:
    """An upper bound of exp(rate) − 1."""
    return jnp.where(rate <= 1, rate * (1 + rate), jnp.inf)


def exp(x: Pair) -> Pair:
    mid = jnp.exp(x.mid)
    out = rounded(mid, mid * _grown(x.rad), 4)
    plain = exact(x) & ((x.mid == 0) | jnp.isneginf(x.mid))
    return Pair(mid, jnp.where(plain, 0.0, out.rad))


def exp2(x: Pair) -> Pair:
    mid = jnp.exp2(x.mid)
    return rounded(mid, mid * _grown(x.rad), 4 + jnp.abs(x.mid))


def expm1(x: Pair) -> Pair:
    mid = jnp.expm1(x.mid)
    return rounded(mid, (mid + 1) * _grown(x.rad), 8)


def log(x: Pair) -> Pair:
    least = (x.mid - x.rad) * (1 - 4 * EPS)
    rad = jnp.where(least > 0, x.rad / least, jnp.inf)
    return rounded(jnp.log(x.mid), rad, 4)


def _log1p(x: Array) -> Array:
    """XLA's own errs by dozens of ulps; the rounding of 1 + x is divided out instead."""
    whole = 1 + x
    return jnp.where(whole == 1, x, jnp.log(whole) * (x / (whole - 1)))


def log1p(x: Pair) -> Pair:
    least = (1 + x.mid - x.rad) * (1 - 4 * EPS)
    rad = jnp.where(least > 0, x.rad / least, jnp.inf)
    return rounded(_log1p(x.mid), rad, 8)


def sqrt(x: Pair) -> Pair:
    mid = jnp.sqrt(x.mid)
    rad = jnp.where(x.rad <= x.mid, x.rad / mid, jnp.inf)
    out = rounded(mid, rad, 1)
    zero = (x.mid == 0) & exact(x)
    return where(zero, x, out)


def rsqrt(x: Pair) -> Pair:
    return div(known(jnp.ones_like(x.mid)), sqrt(x))


def cbrt(x: Pair) -> Pair:
    mid = jnp.cbrt(x.mid)
    least = (jnp.abs(x.mid) - x.rad) * (1 - 4 * EPS)
    rad = jnp.where(least > 0, jnp.abs(mid) * x.rad / least, jnp.inf)
    return where((x.mid == 0) & exact(x), x, rounded(mid, rad, 8))


def logistic(x: Pair) -> Pair:
    mid = 1 / (1 + jnp.exp(-x.mid))
    return rounded(mid, mid * _grown(x.rad), 8)


def _gentle(function: Callable[[Array], Array], slope: float = 1.0, ulps: float = 8) -> Callable[[Pair], Pair]:  # fmt: skip
    """A function whose slope is bounded and that is 0 at 0."""

    def ball(x: Pair) -> Pair:
        out = rounded(function(x.mid), x.rad * slope, ulps)
        zero = (x.mid == 0) & exact(x)
        return Pair(out.mid, jnp.where(zero, 0.0, out.rad))

    return ball


def sin(x: Pair) -> Pair:
    """Near 0 good relatively, elsewhere absolutely."""
    mid = jnp.sin(x.mid)
    size = jnp.where(jnp.abs(x.mid) <= 1, jnp.abs(mid), 1.0)
    out = within(mid, jnp.minimum(x.rad, 2.0) * _ROOM + 8 * ULP * size + _TINY)
    lost = ~jnp.isfinite(x.mid)
    return Pair(mid, jnp.where(lost, jnp.inf, out.rad))


def cos(x: Pair) -> Pair:
    mid = jnp.cos(x.mid)
    rad = jnp.minimum(x.rad, 2.0) * _ROOM + 8 * ULP
    plain = (x.mid == 0) & exact(x)
    return within(mid, jnp.where(jnp.isfinite(x.mid), jnp.where(plain, 0.0, rad), jnp.inf))


def sinh(x: Pair) -> Pair:
    half = jnp.expm1(jnp.abs(x.mid))
    mid = jnp.sign(x.mid) * (half + half / (half + 1)) / 2
    return rounded(mid, (jnp.abs(mid) + 1) * _grown(x.rad), 16)


def cosh(x: Pair) -> Pair:
    grown = jnp.exp(jnp.abs(x.mid))
    mid = (grown + 1 / grown) / 2
    return rounded(mid, mid * _grown(x.rad), 8)


def asinh(x: Pair) -> Pair:
    least = jnp.maximum(1.0, (jnp.abs(x.mid) - x.rad) * (1 - 4 * EPS))
    return rounded(jnp.arcsinh(x.mid), x.rad / least, 8)


def _atanh(x: Array) -> Array:
    size = jnp.abs(x)
    return jnp.sign(x) * _log1p(2 * size / (1 - size)) / 2


def erfc(x: Pair) -> Pair:
    """The complementary error function: its logarithm falls no faster than 2x + 2."""
    mid = lax.erfc(x.mid)
    steep = 2 * jnp.maximum(x.mid + x.rad, 0.0) + 2
    return rounded(mid, mid * _grown(steep * x.rad), 16 + 4 * x.mid * x.mid)


def _by_ends(function: Callable[[Array], Array], ulps: float = 16) -> Callable[[Pair], Pair]:
    """A monotone function: its ends bound it."""

    def ball(x: Pair) -> Pair:
        first, last, mid = function(low(x)), function(high(x)), function(x.mid)
        rad = jnp.maximum(jnp.abs(first - mid), jnp.abs(last - mid))
        size = jnp.maximum(jnp.abs(first), jnp.abs(last))
        alone = exact(x)
        rad = jnp.where(alone, 0.0, rad + size * (2 * ulps * ULP))
        return rounded(mid, rad, ulps)

    return ball


def steps(function: Callable[[Array], Array]) -> Callable[[Pair], Pair]:
    """A step function: exact where both ends agree."""

    def ball(x: Pair) -> Pair:
        lower, upper = ends(x)
        return between(function(lower), function(upper))

    return ball


def absolute(x: Pair) -> Pair:
    """Moves no further than its operand."""
    return Pair(jnp.abs(x.mid), x.rad)


def raised(a: Pair, b: Pair) -> Pair:
    """xʸ for x > 0, and where y is exactly 0, 1 or 2."""
    mid = lax.pow(a.mid, b.mid)
    least = (a.mid - a.rad) * (1 - 4 * EPS)
    rate = jnp.where(least > 0, jnp.abs(b.mid) * a.rad / least, jnp.inf)
    rate = rate + b.rad * (jnp.abs(jnp.log(a.mid)) + rate + 1)
    out = rounded(mid, mid * _grown(rate * _ROOM), 8)
    for n, known_power in ((2.0, mul(a, a)), (1.0, a), (0.0, known(jnp.ones_like(mid)))):
        out = where(exact(b) & (b.mid == n), known_power, out)
    return out


def half_away(x: Array) -> Array:
    """Rounding with halves away from zero."""
    whole = jnp.trunc(x)
    return whole + jnp.where(jnp.abs(x - whole) >= 0.5, jnp.sign(x), 0.0)


UNARY: dict[str, Callable[[Pair], Pair]] = {
    "abs": absolute,
    "acos": _by_ends(jnp.arccos),
    "acosh": _by_ends(jnp.arccosh),
    "asin": _by_ends(jnp.arcsin),
    "asinh": asinh,
    "atan": _gentle(jnp.arctan),
    "atanh": _by_ends(_atanh),
    "cbrt": cbrt,
    "ceil": steps(jnp.ceil),
    "conj": lambda x: x,
    "cos": cos,
    "cosh": cosh,
    "erf": _gentle(lax.erf, 1.1284),
    "erf_inv": _by_ends(lax.erf_inv, 128),
    "erfc": erfc,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "floor": steps(jnp.floor),
    "log": log,
    "log1p": log1p,
    "logistic": logistic,
    "neg": neg,
    "real": lambda x: x,
    "round": steps(jnp.rint),
    "round_away": steps(half_away),
    "rsqrt": rsqrt,
    "sign": steps(jnp.sign),
    "sin": sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": lambda x: div(sin(x), cos(x)),
    "tanh": _gentle(jnp.tanh, ulps=16),
}
BINARY: dict[str, Callable[[Pair, Pair], Pair]] = {
    "add": add,
    "div": div,
    "max": larger,
    "min": smaller,
    "mul": mul,
    "pow": raised,
    "sub": sub,
}
