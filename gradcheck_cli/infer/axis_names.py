"""Names for the axes of shapes that were solved: equal where the sizes have to be equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gradcheck_cli.infer.sizes import Size, Solution
from gradcheck_cli.infer.template import Hole
from gradcheck_cli.inputs.names import is_extent

_NAMED = re.compile(r"(?:(?P<times>\d+)\*)?(?P<name>[^\W\d]\w*)(?P<more>\+\d+)?")
_ALONE = "n"
_NAMES = ("b", "d", "n", "m", "p", "q", "r", "s", "t", "u")

Shapes = Sequence[Sequence[Size]]


def axis_names(holes: Sequence[Hole], shapes: Shapes, solution: Solution) -> list[tuple[str, ...]]:
    """The axes of each array as a comment writes them: `b`, `2*d`, `n+1`, `4`."""
    solved = [[solution.of(size) for size in shape] for shape in shapes]
    free = list(dict.fromkeys(u for shape in solved for size in shape for u, _ in size.terms))
    names = _stated(holes, solved)
    spare = (n for n in _spare(len(free)) if n not in names.values())
    names |= {u: next(spare) for u in free if u not in names}
    return [tuple(_text(size, names) for size in shape) for shape in solved]


def windows(holes: Sequence[Hole], shapes: Shapes, solution: Solution) -> list[int]:
    """The unknowns that a source calls as windows are called."""
    solved = [[solution.of(size) for size in shape] for shape in shapes]
    return [u for u, name in _stated(holes, solved).items() if is_extent(name)]


def halves(shapes: Shapes, solution: Solution) -> set[int]:
    """The unknowns that are halves of an odd size, as what lies on either side of a window's centre is."""
    sizes = (solution.of(size) for shape in shapes for size in shape)
    return {u for size in sizes if size.constant == 1 for u, times in size.terms if times == 2}


def _stated(holes: Sequence[Hole], solved: Shapes) -> dict[int, str]:
    """Unknowns to which a source gives a name, each of them its first, each name once."""
    stated: dict[int, str] = {}
    for hole, shape in zip(holes, solved, strict=True):
        for name, size in zip(hole.dims or (), shape, strict=False):
            match = _NAMED.fullmatch(name)
            if match is None or match["name"] in stated.values() or len(size.terms) != 1:
                continue
            if (int(match["times"] or 1), int(match["more"] or 0)) == (
                size.terms[0][1],
                size.constant,
            ):
                stated.setdefault(size.terms[0][0], match["name"])
    return stated


def _spare(count: int) -> Iterator[str]:
    yield from (_ALONE, *_NAMES) if count == 1 else _NAMES
    yield from (f"n{i}" for i in range(1, count + 1))


def _text(size: Size, names: Mapping[int, str]) -> str:
    terms = [names[u] if count == 1 else f"{count}*{names[u]}" for u, count in size.terms]
    if size.constant > 0 or not terms:
        terms.append(str(size.constant))
    text = "+".join(terms)
    return f"{text}-{-size.constant}" if terms and size.constant < 0 else text
