"""Two arguments that by their names are the ends of a range, the lower one below the upper one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gradcheck_cli.clues.usual_numbers import usual_numbers
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Parameter

_ENDS = (
    ("min", "max"),
    ("minimum", "maximum"),
    ("low", "high"),
    ("lo", "hi"),
    ("lower", "upper"),
    ("near", "far"),
    ("inner", "outer"),
)
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
    """Numbers for both ends of each pair; whole ones where a source says that one of them is."""
    found: dict[str, Clue] = {}
    free = [n for n in names if not any(_is_chosen(clue, n) for clue in known.get(n, ()))]
    for low, high in _pairs(free):
        kinds = {clue.kind for name in (low, high) for clue in known.get(name, ())}
        source = f"the names `{low}` and `{high}`"
        values = _WHOLE if Kind.WHOLE in kinds else _REAL
        found |= {n: Clue(source, values=v) for n, v in zip((low, high), values, strict=True)}
    return found


def _beside(end: Clue, others: Sequence[Clue]) -> list[Clue]:
    """What is known of an end, with its numbers before the usual ones of its kind."""
    of_arrays = (clue.spec if "[" in clue.spec else "" for clue in others)
    return [end, *(replace(c, spec=s, values=()) for c, s in zip(others, of_arrays, strict=True))]


def _is_chosen(clue: Clue, name: str) -> bool:
    """Does a source give numbers of its own, and not the usual ones of a whole number?"""
    return bool(clue.values) and clue.values != usual_numbers(name)[1]


def _pairs(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        for low, high in _ENDS:
            # `qmin`, `min_val`, `lo`: the word may stand at either end of the name.
            other = re.sub(rf"(?<![^\W_]{{2}}){low}(?![^\W_])", high, name, count=1)
            if other != name and other in names:
                yield name, other
                break
