"""Complex balls: the same names as for real ones, in the meaning that JAX gives them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from flint import acb, arb

NAN = acb("nan")
ZERO = acb(0)
ONE = acb(1)


def sign(z: acb) -> acb:
    """z/|z|, and 0 at 0."""
    return ZERO if z == 0 else z / abs(z)


def power(z: acb, w: acb) -> acb:
    if w == 0:
        return ONE
    if z == 0:
        return ZERO if w.real > 0 else NAN
    return z**w


def logistic(z: acb) -> acb:
    return ONE / (ONE + (-z).exp())


def integer_power(z: acb, n: int) -> acb:
    return z**n if n >= 0 else ONE / z**-n


def log1p(z: acb) -> acb:
    """Near 0 the sum 1 + z is exact in balls: nothing cancels that more bits do not bring back."""
    return z.log1p()


UNARY: dict[str, Callable[[acb], acb]] = {
    "acos": acb.acos,
    "acosh": acb.acosh,
    "asin": acb.asin,
    "asinh": acb.asinh,
    "atan": acb.atan,
    "atanh": acb.atanh,
    "conj": acb.conjugate,
    "cos": acb.cos,
    "cosh": acb.cosh,
    "exp": acb.exp,
    "exp2": lambda z: (z * arb(2).log()).exp(),
    "expm1": acb.expm1,
    "log": acb.log,
    "log1p": log1p,
    "log2": lambda z: z.log() / arb(2).log(),
    "logistic": logistic,
    "neg": lambda z: -z,
    "one_minus_square": lambda z: 1 - z * z,
    "rsqrt": acb.rsqrt,
    "sign": sign,
    "sin": acb.sin,
    "sinh": acb.sinh,
    "sqrt": acb.sqrt,
    "tan": acb.tan,
    "tanh": acb.tanh,
}

# From complex to real.
PARTS: dict[str, Callable[[acb], arb]] = {
    "abs": abs,
    "imag": lambda z: z.imag,
    "real": lambda z: z.real,
}

BINARY: dict[str, Callable[[Any, Any], acb]] = {"div": operator.truediv, "pow": power}


def as_complex(ball: arb | acb) -> acb:
    """A real ball on the real line."""
    return ball if isinstance(ball, acb) else acb(ball)


def is_nan(ball: arb | acb) -> bool:
    """Has either part no value?"""
    if isinstance(ball, acb):
        return ball.real.is_nan() or ball.imag.is_nan()
    return ball.is_nan()
