"""Rules that pairs have of their own: writes at the same places of all points are made at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals import rules
from gradcheck_cli.reals.rules.indexing import OUTSIDE, written_places
from gradcheck_cli.reals.rules.rule import Rule, batched, spread


def _scatter(name: str) -> Rule:
    plain = rules.RULES[name]
    op = name.replace("_", "-").partition("-")[2] or "set"

    def rule(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
        operand, indices, updates = values
        if len(indices) > 1:
            return list(plain(domain, step, values, walk))
        batch = batched(values)
        places = written_places(step, operand.shape[1:], indices[0], updates.shape[1:])
        out = np.array(spread(operand, batch)).reshape(batch, -1)
        new = spread(updates, batch).reshape(batch, -1)
        for column, place in enumerate(places.tolist()):
            if place != OUTSIDE:
                out[:, place] = domain.combine(op, out[:, place], new[:, column])
        return [out.reshape(batch, *operand.shape[1:])]

    return rule


_SCATTERS = sorted(name for name in rules.RULES if name.startswith("scatter"))
RULES: dict[str, Rule] = {**rules.RULES, **{name: _scatter(name) for name in _SCATTERS}}
