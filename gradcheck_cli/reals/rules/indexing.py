"""Reads and writes at computed places, one point after the other."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.places import OUTSIDE, SCATTERS, read_places, written_places
from gradcheck_cli.reals.rules.rule import Rule, batched, spread


def _rowwise(rule: Any) -> Rule:
    """Run a rule of one point for each point of the batch."""

    def whole(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        batch = batched(values)
        rows = [rule(domain, step, [_point(v, i) for v in values]) for i in range(batch)]
        return [np.stack(rows)]

    return whole


def _point(value: Any, i: int) -> Any:
    """One row, as an array even if it is a single number."""
    if not isinstance(value, np.ndarray):
        return value[0]
    row = 0 if value.shape[0] == 1 else i
    return value[row : row + 1].reshape(value.shape[1:])


def _gather(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    operand, indices = values
    batch = batched(values)
    fill = domain.constant(np.asarray(_fill(step), step.out_avals[0].dtype))[0]
    places = read_places(step, indices).reshape(len(indices), -1)
    flat = spread(operand.reshape(len(operand), -1), batch)
    if flat.shape[1]:
        out = flat[np.arange(batch)[:, None], np.maximum(places, 0)]
    else:
        out = np.empty((batch, places.shape[1]), operand.dtype)
    out[spread(places, batch) == OUTSIDE] = fill
    return [out.reshape(batch, *step.out_avals[0].shape)]


def _fill(step: Any) -> Any:
    value = step.params.get("fill_value")
    if value is not None:
        return value
    return np.nan if step.out_avals[0].kind == "f" else 0


def _scatter(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any]) -> Any:
        operand, indices, updates = values
        (where,) = written_places(step, operand.shape, indices[None], updates.shape)
        out = operand.reshape(-1).copy()
        for target, update in zip(where, updates.reshape(-1), strict=True):
            if target != OUTSIDE:
                out[target] = domain.combine(op, out[target], update)
        return out.reshape(operand.shape)

    return _rowwise(rule)


def _starts(sizes: tuple[int, ...], window: tuple[int, ...], starts: list[Any]) -> list[int]:
    """Start indices, negative ones from the end, moved inside as XLA does."""
    return [int(min(max(int(s), 0), n - w)) for n, w, s in zip(sizes, window, starts, strict=True)]


def _dynamic_slice(domain: Any, step: Any, values: list[Any]) -> Any:
    operand, *starts = values
    if not starts:  # numpy takes the element out of an array without axes
        return operand
    sizes = step.params["slice_sizes"]
    begin = _starts(operand.shape, sizes, starts)
    return operand[tuple(slice(b, b + n) for b, n in zip(begin, sizes, strict=True))]


def _dynamic_update_slice(domain: Any, step: Any, values: list[Any]) -> Any:
    operand, update, *starts = values
    if not starts:
        return update
    begin = _starts(operand.shape, update.shape, starts)
    out = operand.copy()
    out[tuple(slice(b, b + n) for b, n in zip(begin, update.shape, strict=True))] = update
    return out


TABLE: dict[str, Rule] = {
    "gather": _gather,
    **{name: _scatter(op) for name, op in SCATTERS.items()},
    "dynamic_slice": _rowwise(_dynamic_slice),
    "dynamic_update_slice": _rowwise(_dynamic_update_slice),
}
