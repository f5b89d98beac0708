"""Elementwise primitives: named by what the domain calls them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.tables.rule import Rule, aligned


def _unary(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        if step.in_avals[0].kind == "i":
            return [domain.integer_unary(op, step, values[0])]
        if step.in_avals[0].kind == "c":
            return [domain.complex_unary(op, values[0])]
        return [domain.unary(op, values[0])]

    return rule


def _binary(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        a, b = aligned(values)
        if step.out_avals[0].kind in "ib":
            return [domain.integer_binary(op, step, a, b)]
        if step.out_avals[0].kind == "c":
            return [domain.complex_binary(op, a, b)]
        if step.in_avals[-1].kind == "i":  # a power that is an integer, and no constant
            b = domain.from_integers(b)
        return [domain.binary(op, a, b)]

    return rule


def _integer_pow(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.out_avals[0].kind == "i":
        return [values[0] ** step.params["y"]]
    return [domain.integer_pow(step.out_avals[0].kind, values[0], step.params["y"])]


def _square(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.out_avals[0].kind == "i":
        return [values[0] * values[0]]
    return [domain.integer_pow(step.out_avals[0].kind, values[0], 2)]


def _special(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        return [domain.special(op, np.broadcast_arrays(*aligned(values)))]

    return rule


def _complex(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [domain.to_complex(*np.broadcast_arrays(*aligned(values)))]


def _clamp(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    low, x, high = aligned(values)
    if step.out_avals[0].kind == "i":
        return [np.minimum(np.maximum(x, low), high)]
    return [domain.binary("min", domain.binary("max", x, low), high)]


def _round(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.in_avals[0].kind == "i":
        return list(values)
    even = int(step.params["rounding_method"]) == 1
    return [domain.unary("round" if even else "round_away", values[0])]


def _same(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return list(values)


UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "neg",
    "rsqrt",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
BINARY = ["add", "add_any", "atan2", "div", "max", "min", "mul", "pow", "rem", "sub"]
# Parts of complex numbers; a real number is its own conjugate.
PARTS = ["conj", "imag", "real"]
# Special functions of one or more real arguments.
SPECIAL = [
    "bessel_i0e",
    "bessel_i1e",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "polygamma",
    "random_gamma_grad",
    "regularized_incomplete_beta",
    "zeta",
]
# These take milliseconds at thousands of bits.
SLOW = frozenset({*SPECIAL, "digamma", "lgamma", "erf_inv"})
# Casts and barriers change the float, never the real number.
IDENTITIES = [
    "copy",
    "copy_p",
    "optimization_barrier",
    "stop_gradient",
    "reduce_precision",
    "sharding_constraint",
    "name",
    "dce_sink",
    "pvary",
    "device_put",
    "layout_constraint",
    "pbroadcast",
    "reduced_vary_cast_p",
    "reshard",
    "tie",
    "vary_unreduced_cast_p",
    "with_memory_space_constraint",
]

TABLE: dict[str, Rule] = {
    **{name: _unary(name) for name in (*UNARY, *PARTS)},
    **{name: _binary("add" if name == "add_any" else name) for name in BINARY},
    **{name: _special(name) for name in SPECIAL},
    **dict.fromkeys(IDENTITIES, _same),
    "complex": _complex,
    "integer_pow": _integer_pow,
    "square": _square,
    "clamp": _clamp,
    "round": _round,
}
