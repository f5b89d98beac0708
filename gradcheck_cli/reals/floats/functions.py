"""Functions of float64 arrays by the name that a domain calls them; complex ones where numpy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Array = np.ndarray[Any, Any]


def _round_away(x: Array) -> Array:
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


UNARY: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
    "atan": np.arctan, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "conj": np.conj,
    "cos": np.cos, "cosh": np.cosh, "digamma": special.digamma, "erf": special.erf,
    "erf_inv": special.erfinv, "erfc": special.erfc, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "floor": np.floor, "imag": np.imag, "lgamma": special.gammaln, "log": np.log,
    "log1p": np.log1p, "log2": np.log2, "logistic": special.expit, "neg": np.negative,
    "one_minus_square": lambda x: (1 + x) * (1 - x), "real": np.real,
    "round": np.rint, "round_away": _round_away, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign, "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
}  # fmt: skip

BINARY: dict[str, np.ufunc] = {
    "add": np.add, "atan2": np.arctan2, "div": np.divide, "logaddexp": np.logaddexp,
    "max": np.maximum, "min": np.minimum, "mul": np.multiply, "pow": np.power, "rem": np.fmod,
    "sub": np.subtract,
}  # fmt: skip

SPECIAL: dict[str, Callable[..., Array]] = {
    "bessel_i0e": special.i0e, "bessel_i1e": special.i1e, "igamma": special.gammainc,
    "igammac": special.gammaincc, "polygamma": special.polygamma,
    "regularized_incomplete_beta": special.betainc, "zeta": special.zeta,
}  # fmt: skip

NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}
