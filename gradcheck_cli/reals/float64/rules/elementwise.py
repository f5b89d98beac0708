"""Elementwise primitives of pairs; those of integers run natively."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from gradcheck_cli.reals.facts import Law, functions
from gradcheck_cli.reals.float64.domain import from_integers
from gradcheck_cli.reals.float64.pairs import XLA, Pair
from gradcheck_cli.reals.rules.rule import Rule


def on_floats(rule: Rule) -> Rule:
    """The rule where numbers go in or come out; the step itself where only integers do."""

    def either(domain: Any, step: Any, values: list[Any], walk: Any) -> Any:
        if any(aval.kind == "f" for aval in (*step.in_avals, *step.out_avals)):
            return rule(domain, step, values, walk)
        return domain.native(step, values)

    return either


def _unary(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        return [XLA.unary[op](values[0])]

    return on_floats(rule)


def _binary(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        if op == "sub" and step.ins[0] == step.ins[1]:  # identity of values (SEMANTICS C1)
            zero = XLA.known(jnp.zeros_like(values[0].mid))
            return [XLA.where(jnp.isfinite(values[0].mid), zero, XLA.sub(*values))]
        if step.in_avals[-1].kind == "i":
            values = [values[0], from_integers(values[1])]
        return [XLA.binary[op](*values)]

    return on_floats(rule)


def _integer_pow(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [XLA.power(values[0], step.params["y"])]


def _square(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [XLA.mul(values[0], values[0])]


def _clamp(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    low, x, high = values
    return [XLA.smaller(XLA.larger(x, low), high)]


def _round(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    even = int(step.params["rounding_method"]) == 1
    return [XLA.unary["round" if even else "round_away"](values[0])]


def _same(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Pair]:
    return list(values)


_FUNCTIONS = {**functions(Law.UNARY), **functions(Law.PART)}

TABLE: dict[str, Rule] = {
    **{name: _unary(op) for name, op in _FUNCTIONS.items() if op in XLA.unary},
    **{name: _binary(op) for name, op in functions(Law.BINARY).items() if op in XLA.binary},
    **dict.fromkeys(functions(Law.IDENTITY), _same),
    "integer_pow": on_floats(_integer_pow),
    "square": on_floats(_square),
    "clamp": on_floats(_clamp),
    "round": on_floats(_round),
}
