"""Functions of CUDA's and AMD's libraries, which the interpreter lacks, by their names."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from gradcheck_cli.frameworks.torch.triton.numbers import Numbers, is_traced

_LIBRARIES = (
    "triton.language.extra.libdevice",
    "triton.language.extra.cuda.libdevice",
    "triton.language.extra.hip.libdevice",
)
_ASKS = ("isnan", "isinf", "finitef", "isfinited")
_N: Any = Numbers()
_BY_NUMBER: Mapping[str, Callable[[float], float]] = {
    "erf": math.erf, "erfc": math.erfc, "lgamma": math.lgamma, "tgamma": math.gamma,
}  # fmt: skip
_TRACED: Mapping[str, Callable[..., Any]] = {
    "erf": jax.scipy.special.erf, "erfc": jax.scipy.special.erfc, "lgamma": jax.scipy.special.gammaln,
    "tgamma": jax.scipy.special.gamma, "rsqrt": jax.lax.rsqrt,
}  # fmt: skip
_ALIKE = {  # by numpy's name
    **{name: name for name in ("tanh", "sinh", "cosh", "tan", "exp", "exp2", "expm1", "log", "log1p", "log2",
                               "log10", "sqrt", "cbrt", "sin", "cos", "floor", "ceil", "trunc", "abs", "fmod",
                               "copysign", "hypot", "fmax", "fmin", "isnan", "isinf", "rint")},
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "fast_powf": "power", "fast_expf": "exp",
    "fast_logf": "log", "fast_log2f": "log2", "fast_log10f": "log10", "fast_sinf": "sin", "fast_cosf": "cos",
    "fast_tanf": "tan", "fast_tanhf": "tanh", "nearbyint": "rint", "llrint": "rint", "round": "round", "fabs": "abs",
    "max": "maximum", "min": "minimum", "finitef": "isfinite", "isfinited": "isfinite", "div_rn": "divide",
    "fast_dividef": "divide", "mul_rn": "multiply", "add_rn": "add", "sub_rn": "subtract", "sqrt_rn": "sqrt",
}  # fmt: skip
_MADE: Mapping[str, Callable[..., Any]] = {
    "rsqrt": lambda x: 1 / _N.sqrt(x),
    "rcbrt": lambda x: 1 / _N.cbrt(x),
    "rcp_rn": lambda x: 1 / x,
    "exp10": lambda x: _N.power(x.dtype.type(10), x),
    "fast_exp10f": lambda x: _N.power(x.dtype.type(10), x),
    "fma": lambda a, b, c: a * b + c,
}


def fill_libraries() -> None:
    """The functions in place of the libraries' own, for whoever takes them from there by name."""
    for name in _LIBRARIES:
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        for function in (*_BY_NUMBER, *_ALIKE, *_MADE):
            if hasattr(library, function):
                setattr(library, function, _called(function))


def _called(name: str) -> Callable[..., Any]:
    """The function as a kernel calls it."""

    def call(*args: Any, _semantic: Any = None, **_: Any) -> Any:
        operands = [interpreter.interpreter_semantic.to_tensor(arg) for arg in args]
        dtype = next((o.dtype for o in operands if o.dtype.is_floating()), tl.float32).scalar
        data = _computed(name, [operand.handle.data for operand in operands])
        if name in _ASKS:
            dtype = tl.int1
        if not is_traced(data):
            data = np.asarray(data).astype(interpreter._get_np_dtype(dtype))
        block = any(operand.type.is_block() for operand in operands)
        kind = tl.block_type(dtype, list(data.shape)) if block else dtype
        return tl.tensor(interpreter.TensorHandle(data, dtype), kind)

    call.__name__ = name
    return call


def _anywhere(function: Callable[[float], float]) -> Callable[[float], float]:
    """The function with a value where Python raises: at a pole, and beyond the largest float."""

    def value(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan if x else math.inf
        except OverflowError:
            return math.inf

    return value


def _computed(name: str, operands: list[Any]) -> Any:
    if is_traced(operands) and name in _TRACED:
        return _TRACED[name](*operands)
    if name in _BY_NUMBER:
        return np.vectorize(_anywhere(_BY_NUMBER[name]), otypes=[np.float64])(*operands)
    if name in _MADE:
        return _MADE[name](*operands)
    return getattr(_N, _ALIKE[name])(*operands)
