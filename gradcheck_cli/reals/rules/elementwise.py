"""Elementwise primitives: named by what the domain calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.reals.facts import Facts, Law, functions
from gradcheck_cli.reals.rules.rule import Rule, aligned


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


def rules(facts: Mapping[str, Facts]) -> dict[str, Rule]:
    """What follows from the name of a primitive's function alone."""
    unary = {**functions(Law.UNARY, facts), **functions(Law.PART, facts)}
    return {
        **{name: _unary(op) for name, op in unary.items()},
        **{name: _binary(op) for name, op in functions(Law.BINARY, facts).items()},
        **{name: _special(op) for name, op in functions(Law.SPECIAL, facts).items()},
        **dict.fromkeys(functions(Law.IDENTITY, facts), _same),
    }


TABLE: dict[str, Rule] = {
    "complex": _complex,
    "integer_pow": _integer_pow,
    "square": _square,
    "clamp": _clamp,
    "round": _round,
}
