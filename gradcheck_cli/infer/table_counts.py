"""What the integers of tables are below, where shapes are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradcheck_cli.infer.template import Hole
from gradcheck_cli.inputs.distinct_places import leave_room

_MORE = "+1"  # behind the name of an axis: of what counts its items


def counts(holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]], usual: int) -> list[int]:
    """What the integers of each array are below: a number, an axis by its name, or the usual."""
    named = _named(holes, shapes)
    below_each = []
    for hole, shape in zip(holes, shapes, strict=True):
        below, axis = hole.below or "", hole.members(len(shape))
        least = usual if axis is None else max(usual, shape[axis])
        if hole.quantity:
            least = 2 * usual - 1  # so that not all that are not 0 are the same
        if hole.distinct and axis is None:
            least = _room(shape, holes, shapes) or usual
        high = _end(below, named)
        count = least if high is None else max(high - hole.least, 1)
        in_pairs = hole.distinct and axis is not None
        below_each.append(_shortest(count, holes, shapes) if in_pairs else count)
    return totals(holes, shapes, below_each)


def up_to_whole_axes(
    holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> list[int]:
    """The counts, where those of items along an axis go as far as it is long now."""
    named = _named(holes, shapes)
    ends = (_end(h.below, named) if h.below and h.below.endswith(_MORE) else None for h in holes)
    each = zip(holes, counts, ends, strict=True)
    return [n if end is None else max(end - hole.least, 1) for hole, n, end in each]


def _named(holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The axes by what sources call them."""
    named = {
        dim: size
        for hole, shape in zip(holes, shapes, strict=True)
        for dim, size in zip(hole.dims or (), shape, strict=False)
    }
    for hole, shape in zip(holes, shapes, strict=True):
        for name, place in hole.also:
            if -len(shape) <= place < len(shape):
                named.setdefault(name, shape[place])
    return named


def _room(shape: tuple[int, ...], holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]]) -> int:
    """The shortest axis of the other arrays that has a place for each integer of a table; 0 if none has."""
    axes = (n for h, s in zip(holes, shapes, strict=True) if h.kind != "int" for n in s)
    return min((n for n in axes if shape and n >= shape[-1]), default=0)


def _shortest(usual: int, holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]]) -> int:
    """What the integers of pairs are below that are places in an array of several axes: none is beyond the shortest."""
    deep = [s for h, s in zip(holes, shapes, strict=True) if h.kind != "int" and len(s) > 1]
    return min([usual, *(n for shape in deep for n in shape)])


def leaves_room(
    holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> bool:
    """Can each table of which no two places are to be one be so?"""
    rows = zip(holes, shapes, counts, strict=True)
    return all(
        leave_room(shape, count, hole.members(len(shape)))
        for hole, shape, count in rows
        if hole.distinct
    )


def totals(
    holes: Sequence[Hole], shapes: Sequence[tuple[int, ...]], counts: Sequence[int]
) -> list[int]:
    """The counts, with that of splits as many as there are items: of another table, else of the first array."""
    if not any(hole.splits for hole in holes):
        return list(counts)
    others = [(h, s) for h, s in zip(holes, shapes, strict=True) if s and not h.splits]
    tables = [shape for hole, shape in others if hole.kind == "int"]
    items = next(iter([*tables, *(shape for _, shape in others)]), (0,))[0]
    return [items if h.splits else n for h, n in zip(holes, counts, strict=True)]


def _end(below: str, named: Mapping[str, int]) -> int | None:
    """A number, an axis by its name, or one more: `n+1` of what counts up to n."""
    name = below.removesuffix(_MORE)
    size = int(name) if _is_number(name) else named.get(name)
    return None if size is None else size + (name != below)


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
