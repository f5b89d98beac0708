"""Integers that a table never holds: `labels, never blank`, where the blank is 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Parameter

Clues = Mapping[str, list[Clue]]


def kept_apart(clues: Clues, parameters: Sequence[Parameter]) -> dict[str, list[Clue]]:
    """The clues, with tables above the 0 that they never hold, and that 0 as it is: another would be in them."""
    defaults = {p.name: p.default for p in parameters}
    found = dict(clues)
    for name, those in clues.items():
        for marked in {clue.avoids for clue in those if clue.avoids}:
            if type(defaults.get(marked)) is int and defaults[marked] == 0:
                found[name] = [_above_zero(clue) if clue.avoids else clue for clue in those]
                found[marked] = [Clue(those[0].source, "0", values=(0,), kind=Kind.WHOLE)]
    return found


def _above_zero(clue: Clue) -> Clue:
    if " in 0.." in clue.spec:
        return replace(clue, spec=clue.spec.replace(" in 0..", " in 1.."))
    return replace(clue, domain=clue.domain or ">= 1")
