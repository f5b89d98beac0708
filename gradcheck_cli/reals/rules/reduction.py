"""Reductions and running reductions. Maxima return the operand itself (SEMANTICS C1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.reals.facts import Facts, Law, functions
from gradcheck_cli.reals.rules.rule import Rule


def _axes(step: Any) -> tuple[int, ...]:
    return tuple(a + 1 for a in step.params["axes"])


def _reduce(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        return [domain.reduce(op, step.out_avals[0], values[0], _axes(step))]

    return rule


def _cumulate(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        axis = step.params["axis"] + 1
        x = values[0]
        if step.params["reverse"]:
            return [np.flip(domain.accumulate(op, np.flip(x, axis), axis), axis)]
        return [domain.accumulate(op, x, axis)]

    return rule


def _arg(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        (axis,) = step.params["axes"]
        x = domain.known(values[0]).astype(np.int8) if step.in_avals[0].kind == "b" else values[0]
        return [domain.arg(op, x, axis + 1).astype(step.params["index_dtype"])]

    return rule


def _sort(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    axis = step.params["dimension"] + 1
    ordered: list[Any] = domain.sort(
        values, axis, step.params["num_keys"], [a.kind for a in step.in_avals]
    )
    return ordered


def _top_k(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """The largest in falling order, the first of equals first, and where they stand."""
    x, axis, k = values[0], step.params.get("axis", -1), step.params["k"]
    axis = axis % len(step.in_avals[0].shape) + 1
    numbers = np.expand_dims(np.arange(x.shape[axis]), [d for d in range(x.ndim) if d != axis])
    places = np.broadcast_to(numbers, x.shape)
    negative = domain.unary("neg", x) if domain.holds(x) else -x.astype(np.int64)
    kinds = [step.in_avals[0].kind]
    _, ordered, where = domain.sort([negative, x, places], axis, 1, kinds)
    first = [np.take(v, range(k), axis) for v in (ordered, where)]
    return [first[0], first[1].astype(step.out_avals[1].dtype)]


def _approx_top_k(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    """What is approximate is which of nearly equal ones a device returns; over the reals it is exact."""
    smallest = not step.params["is_max_k"]
    x = domain.unary("neg", values[0]) if smallest else values[0]
    axis = step.params["reduction_dimension"] % len(step.in_avals[0].shape)
    as_top_k = replace(step, params={"axis": axis, "k": step.params["k"]})
    best, places = _top_k(domain, as_top_k, [x], walk)
    return [domain.unary("neg", best) if smallest else best, places]


def rules(facts: Mapping[str, Facts]) -> dict[str, Rule]:
    """What follows from the name of a primitive's function alone."""
    return {
        **{name: _reduce(op) for name, op in functions(Law.REDUCTION, facts).items()},
        **{name: _cumulate(op) for name, op in functions(Law.RUNNING, facts).items()},
    }


TABLE: dict[str, Rule] = {
    "argmax": _arg("max"),
    "argmin": _arg("min"),
    "sort": _sort,
    "approx_top_k": _approx_top_k,
    "top_k": _top_k,
}
