"""Scattered writes of domains whose numbers are elements of whole arrays: all points at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.places import SCATTERS, in_turns, written_places
from gradcheck_cli.reals.rules.rule import Rule, batched, spread


def _scatter(op: str) -> Rule:
    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        operand, indices, updates = values
        batch = batched(values)
        places = written_places(step, operand.shape[1:], indices, updates.shape[1:])
        out = np.array(spread(operand, batch)).reshape(batch, -1)
        new = spread(updates, batch).reshape(batch, -1)
        for rows, targets, columns in in_turns(places):
            points: Any = rows if len(places) > 1 else slice(None)
            out[points, targets] = domain.combine(op, out[points, targets], new[points, columns])
        return [out.reshape(batch, *operand.shape[1:])]

    return rule


TABLE: dict[str, Rule] = {name: _scatter(op) for name, op in SCATTERS.items()}
