"""Comparisons, logic and selection, in three values: no, unknown, yes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcheck_cli.reals.facts import Facts, Law, functions
from gradcheck_cli.reals.rules.rule import Rule, aligned
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES


def _compare(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        a, b = aligned(values)
        if step.in_avals[0].kind == "f":
            return [domain.compare(op, a, b)]
        return [domain.compare_exact(op, step, a, b)]

    return rule


def _logic(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        values = aligned(values)
        if step.in_avals[0].kind == "i":
            return [_BITS[op](*values)]
        return [_LOGIC[op](*values)]

    return rule


def _xor(a: Any, b: Any) -> Any:
    return np.where((a == UNKNOWN) | (b == UNKNOWN), UNKNOWN, np.where(a != b, YES, NO)).astype(
        np.int8
    )


_LOGIC: dict[str, Any] = {
    "and": np.minimum,
    "or": np.maximum,
    "xor": _xor,
    "not": lambda a: YES - a,
}
_BITS: dict[str, Any] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.bitwise_not,
}


def _select_n(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    which, *cases = values
    if step.in_avals[0].kind == "b":
        which = np.asarray(which, np.int8)
    else:  # an integer selector is always known
        which = np.asarray(which)
        return [_choose(aligned([which, *cases]))]
    return [domain.select(step.out_avals[0].kind, *aligned([which, *cases]))]


def _choose(values: list[Any]) -> Any:
    which, *cases = values
    out = np.broadcast_to(cases[0], np.broadcast_shapes(*(v.shape for v in values))).copy()
    for i, case in enumerate(cases[1:], start=1):
        out = np.where(which == i, case, out)
    return out


def _is_finite(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [domain.is_finite(values[0])]


def rules(facts: Mapping[str, Facts]) -> dict[str, Rule]:
    """What follows from the name of a primitive's function alone."""
    return {
        **{name: _compare(op) for name, op in functions(Law.COMPARISON, facts).items()},
        **{name: _logic(op) for name, op in functions(Law.LOGIC, facts).items()},
    }


TABLE: dict[str, Rule] = {"select_n": _select_n, "is_finite": _is_finite}
