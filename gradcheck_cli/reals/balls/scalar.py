"""One ball at a time: the functions that flint does not give in the meaning we need.

Infinite operands are exact points, overflow is unknown (nan), and whatever is
undefined is nan: the nudge decides what that means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from flint import arb

NAN = arb("nan")
INF = arb("inf")
ZERO = arb(0)
ONE = arb(1)
HALF = arb(0.5)

Unary = Callable[[arb], arb]
Binary = Callable[[arb, arb], arb]


def exp(x: arb) -> arb:
    y = x.exp()
    if y.is_finite() or y.is_nan():
        return y
    return INF if x == INF else NAN


def log(x: arb) -> arb:
    if x.is_zero():
        return -INF
    y = x.log()
    if y.is_finite() or y.is_nan():
        return y
    return INF if x == INF else NAN


def log2(x: arb) -> arb:
    if x.is_exact() and x > 0 and x.is_finite():
        mantissa, exponent = x.man_exp()
        if mantissa == 1:
            return arb(exponent)
    y = log(x)
    return y / arb(2).log() if y.is_finite() else y


def log1p(x: arb) -> arb:
    if x == -ONE:
        return -INF
    if x == INF:
        return INF
    return x.log1p()


def expm1(x: arb) -> arb:
    return _growing(arb.expm1, x, -ONE)


def sqrt(x: arb) -> arb:
    return INF if x == INF else x.sqrt()


def rsqrt(x: arb) -> arb:
    return ZERO if x == INF else x.rsqrt()


def sinh(x: arb) -> arb:
    return _growing(arb.sinh, x, -INF)


def cosh(x: arb) -> arb:
    return _growing(arb.cosh, x, INF)


def _growing(fn: Unary, x: arb, at_minus_infinity: arb) -> arb:
    y = fn(x)
    if y.is_finite() or y.is_nan():
        return y
    return INF if x == INF else at_minus_infinity if x == -INF else NAN


def logistic(x: arb) -> arb:
    return ONE / (ONE + exp(-x))


def cbrt(x: arb) -> arb:
    if x >= 0:
        return ZERO if x.is_zero() else x.root(3)
    if x < 0:
        return -((-x).root(3))
    return cbrt(x.lower()).union(cbrt(x.upper())) if x.is_finite() else NAN


def lgamma(x: arb) -> arb:
    """log |gamma(x)|, as floats mean it."""
    if x > 0:
        return x.lgamma()
    return arb.pi().log() - log(abs(x.sin_pi())) - (ONE - x).lgamma()


def exp2(x: arb) -> arb:
    return exp(x * arb(2).log()) if not x.is_integer() or abs(x) > 1000 else arb(2) ** x


def round_even(x: arb) -> arb:
    low = (x - HALF).ceil()
    high = (x + HALF).floor()
    if low.is_exact() and low == high:
        return low
    if x.is_exact():  # exactly half way
        return low if (low / 2).is_integer() else high
    return low.union(high)


def round_away(x: arb) -> arb:
    return x.sgn() * (abs(x) + HALF).floor()


def rem(x: arb, y: arb) -> arb:
    """Remainder with the sign of the dividend."""
    quotient = x / y
    whole = quotient.floor() if quotient >= 0 else quotient.ceil()
    return x - whole * y


def power(x: arb, y: arb) -> arb:
    if y.is_zero() or x == ONE:
        return ONE
    if y.is_exact() and y.is_integer() and abs(y) < 2**20:
        return integer_power(x, int(float(y)))
    if x.is_zero():
        return ZERO if y > 0 else INF if y < 0 else NAN
    return x**y


def integer_power(x: arb, n: int) -> arb:
    if n < 0:
        return ONE / integer_power(x, -n)
    y = x**n
    if y.is_nan() and x.is_finite():
        y = _around_zero(x, n)
    return y.nonnegative_part() if n % 2 == 0 and not y >= 0 else y


def _around_zero(x: arb, n: int) -> arb:
    """The power of a ball whose middle is 0, of which flint makes no number."""
    end = x.rad() ** n
    return (-end).union(end) if n else ONE


def larger(a: arb, b: arb) -> arb:
    """The operand itself where that is decided."""
    if a is b or a >= b:
        return a
    return b if b >= a else a.max(b)


def smaller(a: arb, b: arb) -> arb:
    if a is b or a <= b:
        return a
    return b if b <= a else a.min(b)


def difference(a: arb, b: arb) -> arb:
    """Exactly 0 of one number and itself, however wide its ball is: one object is one number."""
    return ZERO if a is b and isinstance(a, arb) and a.is_finite() else a - b


def union(a: arb, b: arb) -> arb:
    if a is b:
        return a
    if a.is_exact() and b.is_exact() and a == b:
        return a
    return a.union(b)


UNARY: dict[str, Unary] = {
    "abs": abs,
    "acos": arb.acos,
    "acosh": arb.acosh,
    "asin": arb.asin,
    "asinh": arb.asinh,
    "atan": arb.atan,
    "atanh": arb.atanh,
    "cbrt": cbrt,
    "ceil": arb.ceil,
    "cos": arb.cos,
    "cosh": cosh,
    "digamma": arb.digamma,
    "erf": arb.erf,
    "erf_inv": arb.erfinv,
    "erfc": arb.erfc,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "floor": arb.floor,
    "lgamma": lgamma,
    "log": log,
    "log1p": log1p,
    "log2": log2,
    "logistic": logistic,
    "conj": lambda x: x,
    "imag": lambda x: ZERO,
    "neg": lambda x: -x,
    "one_minus_square": lambda x: ONE - x * x,
    "real": lambda x: x,
    "round": round_even,
    "round_away": round_away,
    "rsqrt": rsqrt,
    "sign": arb.sgn,
    "sin": arb.sin,
    "sinh": sinh,
    "sqrt": sqrt,
    "tan": arb.tan,
    "tanh": arb.tanh,
}

# The same without the cases that are not finite.
PLAIN: dict[str, Unary] = {
    "cosh": arb.cosh,
    "exp": arb.exp,
    "expm1": arb.expm1,
    "log": arb.log,
    "log1p": arb.log1p,
    "rsqrt": arb.rsqrt,
    "sinh": arb.sinh,
    "sqrt": arb.sqrt,
}

BINARY: dict[str, Binary] = {
    "add": operator.add,
    "atan2": arb.atan2,
    "div": operator.truediv,
    "max": larger,
    "min": smaller,
    "mul": operator.mul,
    "pow": power,
    "rem": rem,
    "sub": difference,
}

# What changes nothing under a function of two numbers.
NEUTRAL: dict[str, arb] = {"add": ZERO, "mul": ONE, "max": -INF, "min": INF}
