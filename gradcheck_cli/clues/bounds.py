"""Two arguments that by their names are the ends of a range, the lower one below the upper one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.clues.usual_numbers import usual_numbers
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.ends import pairs
from gradcheck_cli.inputs.signature import OMITTED, Parameter

_WHOLE = ((1, 0), (3, 2, 4))  # any of the first below any of the second
_REAL = ((0.5, 0.375, -0.75), (2.0, 1.25))


def with_ends(
    known: dict[str, list[Clue]], parameters: Sequence[Parameter]
) -> tuple[dict[str, list[Clue]], dict[str, Clue]]:
    """The clues with numbers for the ends of ranges that have no default, before the usual ones of their kind; and these."""
    free = [p.name for p in parameters if p.default is OMITTED or p.default is None]
    ends = clues(free, known)
    return known | {name: _beside(clue, known.get(name, ())) for name, clue in ends.items()}, ends


def clues(names: Sequence[str], known: Mapping[str, Sequence[Clue]]) -> dict[str, Clue]:
    """Numbers for both ends of each pair: a source's own, else whole ones where one says that they are whole."""
    found: dict[str, Clue] = {}
    for low, high in pairs(names):
        kinds = {clue.kind for name in (low, high) for clue in known.get(name, ())}
        source = f"the names `{low}` and `{high}`"
        stated = [_chosen(known.get(name, ()), name) for name in (low, high)]
        values: Sequence[tuple[object, ...]] = _WHOLE if Kind.WHOLE in kinds else _REAL
        if any(stated):
            values = [v.values for v in stated if v] if all(stated) else ()
            source = next(v.source for v in stated if v)
        found |= {n: Clue(source, values=v) for n, v in zip((low, high), values, strict=False)}
    return found


def _beside(end: Clue, others: Sequence[Clue]) -> list[Clue]:
    """What is known of an end, with its numbers before the usual ones of its kind."""
    of_arrays = (clue.spec if "[" in clue.spec else "" for clue in others)
    return [end, *(replace(c, spec=s, values=()) for c, s in zip(others, of_arrays, strict=True))]


def _chosen(clues: Sequence[Clue], name: str) -> Clue | None:
    """The clue that gives numbers of its own, and not the usual ones of a whole number."""
    usual = usual_numbers(name)[1]
    return next((clue for clue in clues if clue.values and clue.values != usual), None)
