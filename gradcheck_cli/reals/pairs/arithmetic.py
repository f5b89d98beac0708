"""Pairs of midpoint and radius in float64: arithmetic whose results never leave their balls.

Every operation adds its own rounding to the radius. Elementary functions are trusted to a few
units in the last place (the tests hold them to flint, of every library that computes them). A pair
whose radius is infinite knows nothing; a radius is never NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Array = Any  # of the library that computes


class Pair(NamedTuple):
    """Numbers known to lie within `rad` of `mid`; an infinite one of radius 0 is exact."""

    mid: Array
    rad: Array


EPS = 2.0**-53
ULP = 2.0**-52
_TINY = 2.0**-1018  # above all that a library may flush to zero
_ROOM = 1 + 2.0**-48  # the radius is computed in floats too
_SHORT = np.uint64((1 << 29) - 1)  # the bits that a float of 24 digits does not have
_PER_LOG = 1.4426950408889636  # 1 / log 2, rounded up
_SAFE = 2.0**-900  # results above this have not underflowed


def exact(x: Pair) -> Array:
    return x.rad == 0


class Arithmetic:
    """The arithmetic of pairs, computed by numpy or by a library with its names.

    What libraries name in their own ways is given: the error functions, and the bits of a float.
    """

    def __init__(
        self,
        xp: Any,
        *,
        erf: Callable[[Array], Array],
        erf_inv: Callable[[Array], Array],
        erfc: Callable[[Array], Array],
        bits: Callable[[Array], Array],
    ) -> None:
        self.xp, self._erfc, self._bits = xp, erfc, bits
        self.unary: Mapping[str, Callable[[Pair], Pair]] = {
            "abs": self.absolute,
            "acos": self._by_ends(xp.arccos),
            "acosh": self._by_ends(xp.arccosh),
            "asin": self._by_ends(xp.arcsin),
            "asinh": self.asinh,
            "atan": self._gentle(xp.arctan),
            "atanh": self._by_ends(self._atanh),
            "cbrt": self.cbrt,
            "ceil": self.steps(xp.ceil),
            "conj": lambda x: x,
            "cos": self.cos,
            "cosh": self.cosh,
            "erf": self._gentle(erf, 1.1284),
            "erf_inv": self._by_ends(erf_inv, 128),
            "erfc": self.erfc,
            "exp": self.exp,
            "exp2": self.exp2,
            "expm1": self.expm1,
            "floor": self.steps(xp.floor),
            "log": self.log,
            "log1p": self.log1p,
            "log2": self.log2,
            "logistic": self.logistic,
            "neg": self.neg,
            "one_minus_square": self.one_minus_square,
            "real": lambda x: x,
            "round": self.steps(xp.rint),
            "round_away": self.steps(self.half_away),
            "rsqrt": self.rsqrt,
            "sign": self.steps(xp.sign),
            "sin": self.sin,
            "sinh": self.sinh,
            "sqrt": self.sqrt,
            "tan": lambda x: self.div(self.sin(x), self.cos(x)),
            "tanh": self._gentle(xp.tanh, ulps=16),
        }
        self.binary: Mapping[str, Callable[[Pair, Pair], Pair]] = {
            "add": self.add,
            "div": self.div,
            "max": self.larger,
            "min": self.smaller,
            "mul": self.mul,
            "pow": self.raised,
            "sub": self.sub,
        }

    def known(self, mid: Array) -> Pair:
        """Exact numbers."""
        mid = self.xp.asarray(mid, self.xp.float64)
        return Pair(mid, self.xp.zeros_like(mid))

    def within(self, mid: Array, rad: Array) -> Pair:
        """A ball; a radius that is no number is infinite."""
        return Pair(mid, self.xp.where(rad >= 0, rad, self.xp.inf))

    def rounded(self, mid: Array, rad: Array, ulps: Any = 0.5) -> Pair:
        """The ball of a result that is good to some ulps (default: rounded once)."""
        return self.within(mid, rad * _ROOM + self.xp.abs(mid) * (2 * ulps * ULP) + _TINY)

    def low(self, x: Pair) -> Array:
        return self.xp.nextafter(x.mid - x.rad, self.xp.full_like(x.mid, -self.xp.inf))

    def high(self, x: Pair) -> Array:
        return self.xp.nextafter(x.mid + x.rad, self.xp.full_like(x.mid, self.xp.inf))

    def between(self, lower: Array, upper: Array) -> Pair:
        """The ball around an interval; one point stays one."""
        mid = lower / 2 + upper / 2
        same = lower == upper
        around = self.rounded(mid, self.xp.maximum(upper - mid, mid - lower))
        return Pair(self.xp.where(same, lower, around.mid), self.xp.where(same, 0.0, around.rad))

    def ends(self, x: Pair) -> tuple[Array, Array]:
        return self.xp.where(exact(x), x.mid, self.low(x)), self.xp.where(
            exact(x), x.mid, self.high(x)
        )

    def where(self, which: Array, yes: Pair, no: Pair) -> Pair:
        return Pair(self.xp.where(which, yes.mid, no.mid), self.xp.where(which, yes.rad, no.rad))

    def union(self, a: Pair, b: Pair) -> Pair:
        lower = self.xp.minimum(self.ends(a)[0], self.ends(b)[0])
        return self.between(lower, self.xp.maximum(self.ends(a)[1], self.ends(b)[1]))

    def neg(self, x: Pair) -> Pair:
        return Pair(-x.mid, x.rad)

    def add(self, a: Pair, b: Pair) -> Pair:
        """The rounding of a sum is itself a float: often it is 0."""
        mid = a.mid + b.mid
        back = mid - a.mid
        error = self.xp.abs((a.mid - (mid - back)) + (b.mid - back))
        rad = a.rad + b.rad
        sure = (rad == 0) & (error == 0) & ((self.xp.abs(mid) > _SAFE) | (a.mid == -b.mid))
        infinite = (self.xp.isinf(a.mid) | self.xp.isinf(b.mid)) & (rad == 0) & ~self.xp.isnan(mid)
        return self.within(mid, self.xp.where(sure | infinite, 0.0, (rad + error) * _ROOM + _TINY))

    def sub(self, a: Pair, b: Pair) -> Pair:
        return self.add(a, self.neg(b))

    def mul(self, a: Pair, b: Pair) -> Pair:
        """Zero times anything is exact, and so are products of numbers with few digits."""
        mid = a.mid * b.mid
        rad = self.xp.abs(a.mid) * b.rad + a.rad * (self.xp.abs(b.mid) + b.rad)
        zero = ((a.mid == 0) & exact(a) & self.xp.isfinite(b.rad)) | (
            (b.mid == 0) & exact(b) & self.xp.isfinite(a.rad)
        )
        few = (
            exact(a)
            & exact(b)
            & self._short(a.mid)
            & self._short(b.mid)
            & (self.xp.abs(mid) > _SAFE)
        )
        out = self.rounded(mid, rad)
        return Pair(out.mid, self.xp.where((zero | few) & self.xp.isfinite(mid), 0.0, out.rad))

    def _short(self, x: Array) -> Array:
        """No more digits than a float32 has."""
        return (self._bits(x) & _SHORT) == 0

    def div(self, a: Pair, b: Pair) -> Pair:
        least = (self.xp.abs(b.mid) - b.rad) * (1 - 4 * EPS)
        mid = a.mid / b.mid
        rad = self.xp.where(least > 0, (a.rad + self.xp.abs(mid) * b.rad) / least, self.xp.inf)
        out = self.rounded(mid, rad)
        nothing = (a.mid == 0) & exact(a) & (least > 0)
        nothing |= (
            self.xp.isinf(b.mid) & exact(b) & self.xp.isfinite(a.mid) & self.xp.isfinite(a.rad)
        )
        return self.where(nothing, Pair(self.xp.zeros_like(mid), self.xp.zeros_like(mid)), out)

    def larger(self, a: Pair, b: Pair) -> Pair:
        """The maximum moves no further than its operands do; a clear winner stays itself."""
        apart = a.mid - b.mid
        reach = (a.rad + b.rad) * _ROOM
        rad = self.xp.where(-apart > reach, b.rad, self.xp.maximum(a.rad, b.rad))
        return Pair(self.xp.maximum(a.mid, b.mid), self.xp.where(apart > reach, a.rad, rad))

    def smaller(self, a: Pair, b: Pair) -> Pair:
        return self.neg(self.larger(self.neg(a), self.neg(b)))

    def power(self, x: Pair, n: int) -> Pair:
        """By squaring."""
        if n < 0:
            return self.div(self.known(self.xp.ones_like(x.mid)), self.power(x, -n))
        if n < 2:
            return x if n else self.known(self.xp.ones_like(x.mid))
        half = self.power(x, n // 2)
        return self.mul(self.mul(half, half), x) if n % 2 else self.mul(half, half)

    def _grown(self, rate: Array) -> Array:
        """An upper bound of exp(rate) − 1."""
        return self.xp.where(rate <= 1, rate * (1 + rate), self.xp.inf)

    def exp(self, x: Pair) -> Pair:
        mid = self.xp.exp(x.mid)
        out = self.rounded(mid, mid * self._grown(x.rad), 4)
        plain = exact(x) & ((x.mid == 0) | self.xp.isneginf(x.mid))
        return Pair(mid, self.xp.where(plain, 0.0, out.rad))

    def exp2(self, x: Pair) -> Pair:
        mid = self.xp.exp2(x.mid)
        return self.rounded(mid, mid * self._grown(x.rad), 4 + self.xp.abs(x.mid))

    def expm1(self, x: Pair) -> Pair:
        mid = self.xp.expm1(x.mid)
        return self.rounded(mid, (mid + 1) * self._grown(x.rad), 8)

    def log(self, x: Pair) -> Pair:
        least = (x.mid - x.rad) * (1 - 4 * EPS)
        rad = self.xp.where(least > 0, x.rad / least, self.xp.inf)
        return self.rounded(self.xp.log(x.mid), rad, 4)

    def log2(self, x: Pair) -> Pair:
        least = (x.mid - x.rad) * (1 - 4 * EPS)
        rad = self.xp.where(least > 0, x.rad / least, self.xp.inf)
        return self.rounded(self.xp.log2(x.mid), rad * _PER_LOG, 4)

    def one_minus_square(self, x: Pair) -> Pair:
        one = self.known(self.xp.ones_like(x.mid))
        return self.mul(self.add(one, x), self.sub(one, x))

    def _log1p(self, x: Array) -> Array:
        """XLA's own errs by dozens of ulps; the rounding of 1 + x is divided out instead."""
        whole = 1 + x
        return self.xp.where(whole == 1, x, self.xp.log(whole) * (x / (whole - 1)))

    def log1p(self, x: Pair) -> Pair:
        least = (1 + x.mid - x.rad) * (1 - 4 * EPS)
        rad = self.xp.where(least > 0, x.rad / least, self.xp.inf)
        return self.rounded(self._log1p(x.mid), rad, 8)

    def sqrt(self, x: Pair) -> Pair:
        mid = self.xp.sqrt(x.mid)
        rad = self.xp.where(x.rad <= x.mid, x.rad / mid, self.xp.inf)
        out = self.rounded(mid, rad, 1)
        zero = (x.mid == 0) & exact(x)
        return self.where(zero, x, out)

    def rsqrt(self, x: Pair) -> Pair:
        return self.div(self.known(self.xp.ones_like(x.mid)), self.sqrt(x))

    def cbrt(self, x: Pair) -> Pair:
        mid = self.xp.cbrt(x.mid)
        least = (self.xp.abs(x.mid) - x.rad) * (1 - 4 * EPS)
        rad = self.xp.where(least > 0, self.xp.abs(mid) * x.rad / least, self.xp.inf)
        return self.where((x.mid == 0) & exact(x), x, self.rounded(mid, rad, 8))

    def logistic(self, x: Pair) -> Pair:
        mid = 1 / (1 + self.xp.exp(-x.mid))
        return self.rounded(mid, mid * self._grown(x.rad), 8)

    def _gentle(self, function: Callable[[Array], Array], slope: float = 1.0, ulps: float = 8) -> Callable[[Pair], Pair]:  # fmt: skip
        """A function whose slope is bounded and that is 0 at 0."""

        def ball(x: Pair) -> Pair:
            out = self.rounded(function(x.mid), x.rad * slope, ulps)
            zero = (x.mid == 0) & exact(x)
            return Pair(out.mid, self.xp.where(zero, 0.0, out.rad))

        return ball

    def sin(self, x: Pair) -> Pair:
        """Near 0 good relatively, elsewhere absolutely."""
        mid = self.xp.sin(x.mid)
        size = self.xp.where(self.xp.abs(x.mid) <= 1, self.xp.abs(mid), 1.0)
        out = self.within(mid, self.xp.minimum(x.rad, 2.0) * _ROOM + 8 * ULP * size + _TINY)
        lost = ~self.xp.isfinite(x.mid)
        return Pair(mid, self.xp.where(lost, self.xp.inf, out.rad))

    def cos(self, x: Pair) -> Pair:
        mid = self.xp.cos(x.mid)
        rad = self.xp.minimum(x.rad, 2.0) * _ROOM + 8 * ULP
        plain = (x.mid == 0) & exact(x)
        return self.within(
            mid, self.xp.where(self.xp.isfinite(x.mid), self.xp.where(plain, 0.0, rad), self.xp.inf)
        )

    def sinh(self, x: Pair) -> Pair:
        half = self.xp.expm1(self.xp.abs(x.mid))
        mid = self.xp.sign(x.mid) * (half + half / (half + 1)) / 2
        return self.rounded(mid, (self.xp.abs(mid) + 1) * self._grown(x.rad), 16)

    def cosh(self, x: Pair) -> Pair:
        grown = self.xp.exp(self.xp.abs(x.mid))
        mid = (grown + 1 / grown) / 2
        return self.rounded(mid, mid * self._grown(x.rad), 8)

    def asinh(self, x: Pair) -> Pair:
        least = self.xp.maximum(1.0, (self.xp.abs(x.mid) - x.rad) * (1 - 4 * EPS))
        return self.rounded(self.xp.arcsinh(x.mid), x.rad / least, 8)

    def _atanh(self, x: Array) -> Array:
        size = self.xp.abs(x)
        return self.xp.sign(x) * self._log1p(2 * size / (1 - size)) / 2

    def erfc(self, x: Pair) -> Pair:
        """The complementary error function: its logarithm falls no faster than 2x + 2."""
        mid = self._erfc(x.mid)
        steep = 2 * self.xp.maximum(x.mid + x.rad, 0.0) + 2
        return self.rounded(mid, mid * self._grown(steep * x.rad), 16 + 4 * x.mid * x.mid)

    def _by_ends(
        self, function: Callable[[Array], Array], ulps: float = 16
    ) -> Callable[[Pair], Pair]:
        """A monotone function: its ends bound it."""

        def ball(x: Pair) -> Pair:
            first, last, mid = function(self.low(x)), function(self.high(x)), function(x.mid)
            rad = self.xp.maximum(self.xp.abs(first - mid), self.xp.abs(last - mid))
            size = self.xp.maximum(self.xp.abs(first), self.xp.abs(last))
            alone = exact(x)
            rad = self.xp.where(alone, 0.0, rad + size * (2 * ulps * ULP))
            return self.rounded(mid, rad, ulps)

        return ball

    def steps(self, function: Callable[[Array], Array]) -> Callable[[Pair], Pair]:
        """A step function: exact where both ends agree."""

        def ball(x: Pair) -> Pair:
            lower, upper = self.ends(x)
            return self.between(function(lower), function(upper))

        return ball

    def absolute(self, x: Pair) -> Pair:
        """Moves no further than its operand."""
        return Pair(self.xp.abs(x.mid), x.rad)

    def raised(self, a: Pair, b: Pair) -> Pair:
        """xʸ for x > 0, and where y is exactly 0, 1 or 2."""
        mid = self.xp.power(a.mid, b.mid)
        least = (a.mid - a.rad) * (1 - 4 * EPS)
        rate = self.xp.where(least > 0, self.xp.abs(b.mid) * a.rad / least, self.xp.inf)
        rate = rate + b.rad * (self.xp.abs(self.xp.log(a.mid)) + rate + 1)
        out = self.rounded(mid, mid * self._grown(rate * _ROOM), 8)
        for n, known_power in (
            (2.0, self.mul(a, a)),
            (1.0, a),
            (0.0, self.known(self.xp.ones_like(mid))),
        ):
            out = self.where(exact(b) & (b.mid == n), known_power, out)
        return out

    def half_away(self, x: Array) -> Array:
        """Rounding with halves away from zero."""
        whole = self.xp.trunc(x)
        return whole + self.xp.where(self.xp.abs(x - whole) >= 0.5, self.xp.sign(x), 0.0)
