"""A signature again, where it leaves something unseen: a size doubled or made odd, another entry in a table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.infer.table_counts import leaves_room, up_to_whole_axes
from gradcheck_cli.infer.template import Hole, template
from gradcheck_cli.inputs.signature import Fixed, Hints, Leaf, Signature
from gradcheck_cli.subject.results import Cut

_MOST_NUMBERS = 400  # in all arrays of a call
_LONG = 64  # beside an axis longer than that two of each other one are enough
_MOST_IN_BLOCKS = 2000  # where a kernel's blocks are large
_LENGTHS = (24, 96, 384)  # until slices that begin late are in it
_SHORT, _MORE = 5, 3
_LONG_AXES = (5, 7, 11, 13)
_BODY = "the body"  # how the source of a clue begins that the body gives
_WIDER = 2  # by which an axis is longer at least
_LONGER, _LATE = ", longer for a text that loops", ", longer for a slice that begins late"
_PIECES = ", longer for a text that takes pieces"
_FAR = 16  # how many times as large a bound is made, or as small
_MARKS = (-1, 0, 1, -100)  # of what does not count

Shape = tuple[int, ...]


def larger(signature: Signature, hints: Hints) -> Iterator[Signature]:
    """For each size the signature with all axes of that size twice as long, the last axes first.

    Sizes that nothing made equal were chosen to differ, so axes of one size belong together.
    """
    yield from _resized(signature, hints, lambda size: 2 * size)


def wider(signature: Signature, hints: Hints) -> Iterator[Signature]:
    """The signature with all axes that no source states longer, and with tables that count further, if they may."""

    def more(n: int) -> int:
        return n + max(_WIDER, n // 2)

    yield from _at_once(signature, hints, more, counted=lambda count: 2 * count)
    yield from _at_once(signature, hints, more)
    yield from larger(signature, hints)


def odd(signature: Signature, hints: Hints) -> Iterator[Signature]:
    """The signature with all even sizes one larger, then but for what is half of another one, then each alone."""
    sizes = {n for leaf in signature.leaves for n in leaf.shape}
    halved = {n for n in sizes if n > 2 and n % 2 == 0 and sizes & {n // 2, n // 2 + 1}}
    halves = {half for n in halved for half in (n // 2, n // 2 + 1)} - halved

    def other(size: int) -> int:
        return size if size % 2 or size in halves else size + 1

    yield from _at_once(signature, hints, lambda size: size if size % 2 else size + 1)
    yield from _at_once(signature, hints, other)
    yield from _resized(signature, hints, lambda size: size + 1 if size in halved else size)
    yield from _resized(signature, hints, lambda size: size if size in halved else other(size))


def longer(signature: Signature, hints: Hints) -> Iterator[Signature]:
    """For each short size the signature with all axes of that size a few longer: what a loop does late is seen.

    Sizes that the body asks for come first, for it may go along these axes.
    """
    taken = {n for leaf in signature.leaves for n in leaf.shape}

    def more(size: int) -> int:
        """A length into which nothing divides, and which no other axis has."""
        odd = (n for n in _LONG_AXES if n >= size + _MORE and n not in taken)
        return next(odd, size) if size <= _SHORT else size

    for other in _resized(signature, hints, more, first=_asked_for(signature, hints)):
        yield _said(other, _LONGER)


def _asked_for(signature: Signature, hints: Hints) -> set[int]:
    """The sizes of the axes that the body gives a name: `steps = frames.shape[1]`."""
    found: set[int] = set()
    for leaf in signature.leaves:
        for clue in hints.clues.get(leaf.path, ()):
            if clue.source.startswith(_BODY):
                ahead = zip(clue.first, leaf.shape, strict=False)
                behind = zip(reversed(clue.last), reversed(leaf.shape), strict=False)
                found |= {size for name, size in itertools.chain(ahead, behind) if name}
    return found


def over_blocks(signature: Signature, hints: Hints, cut: Cut) -> Iterator[Signature]:
    """The signature with an axis that is one block so long that there are three, the last one ragged, else two.

    The kernel may take but a part of an axis, as a gate takes half of it: then that is so many times as long.
    """
    for size in cut.longer:
        for axis, times in _cut_axes(signature, hints, cut.size):
            long = _instead(axis, times * size)
            if times * size > _LONG:
                few = _few_beside(axis, times * size)
                yield from _at_once(signature, hints, few, _MOST_IN_BLOCKS)
            yield from _at_once(signature, hints, long, _MOST_IN_BLOCKS)


def _cut_axes(signature: Signature, hints: Hints, size: int) -> list[tuple[int, int]]:
    """The axes that a kernel cuts where it sees this size: those of it, else those of which it is a part, with how many parts."""
    free = {n for axes in _free_axes(signature, hints) for n in axes}
    if size in free:
        return [(size, 1)]
    parts = {n: n // size for n in sorted(free) if n > size}
    return [(n, times) for n, times in parts.items() if times > 1 and n // times == size]


def past_slices(signature: Signature, hints: Hints) -> Iterator[Signature]:
    """The signature with an axis so long that slices of it may be in it which begin late: `counts[200:250]`; others are two."""
    sizes = dict.fromkeys(n for axes in _free_axes(signature, hints) for n in reversed(axes))
    yield from _one_long(signature, hints, sizes, _LENGTHS, _LATE)


def in_pieces(signature: Signature, hints: Hints, length: int) -> Iterator[Signature]:
    """The signature with an axis of three pieces of this length, the last one ragged, or of two; others are two."""
    sizes = dict.fromkeys(n for axes in _free_axes(signature, hints) for n in axes)
    yield from _one_long(signature, hints, sizes, (2 * length + 1, 2 * length), _PIECES)


def _one_long(
    signature: Signature, hints: Hints, sizes: Iterable[int], lengths: Sequence[int], why: str
) -> Iterator[Signature]:
    """For each length and size the signature with the axes of that size so long, and why; others are two."""
    for length in lengths:
        for size in sizes:
            few = _few_beside(size, length)
            for other in _at_once(signature, hints, few, _MOST_IN_BLOCKS) if size > 1 else ():
                yield _said(other, why)


def is_longer(signature: Signature) -> bool:
    """Were its axes made longer than anything states, to see the whole of a loop, a late slice, a second piece?"""
    return any(leaf.source.endswith((_LONGER, _LATE, _PIECES)) for leaf in signature.leaves)


def _said(signature: Signature, why: str) -> Signature:
    """The signature whose arrays tell why they are longer."""

    def as_longer(part: object) -> object:
        return replace(part, source=f"{part.source}{why}") if isinstance(part, Leaf) else part

    return signature.changed(as_longer)


def _resized(
    signature: Signature,
    hints: Hints,
    other: Callable[[int], int],
    first: Collection[int] = (),
) -> Iterator[Signature]:
    """For each free size that is another then, the signature with all axes of that size; some sizes first."""
    sizes = dict.fromkeys(
        n for axes in _free_axes(signature, hints) for n in reversed(axes) if n > 1
    )
    for size in sorted(sizes, key=lambda size: size not in first):
        yield from _at_once(signature, hints, _of_one(size, other))


def _of_one(size: int, other: Callable[[int], int]) -> Callable[[int], int]:
    """The other size for one size, each other one as it is."""
    return lambda n: other(n) if n == size else n


def _few_beside(size: int, other: int) -> Callable[[int], int]:
    """The other size for one size, two at most for each other one."""
    return lambda n: other if n == size else min(n, 2)


def _instead(size: int, other: int) -> Callable[[int], int]:
    return _of_one(size, lambda _: other)


def _at_once(
    signature: Signature,
    hints: Hints,
    other: Callable[[int], int],
    most: int = _MOST_NUMBERS,
    counted: Callable[[int], int] = lambda count: count,
) -> Iterator[Signature]:
    """The signature with all its free axes of other sizes, if that changes anything and is not too large."""
    opened, parts = template(signature, hints.clues, list(hints.specs)), _arrays(signature)
    free = _free_axes(signature, hints)
    if not free:
        return
    shapes = [parts[hole.path][0] for hole in opened.holes]
    counts = [counted(parts[hole.path][1] - hole.least) for hole in opened.holes]
    resized = [
        tuple(other(n) if n == m else n for n, m in zip(shape, axes, strict=True))
        for shape, axes in zip(shapes, free, strict=True)
    ]
    counts = [  # a permutation of all stays one
        after[-1] if hole.distinct and before == (n,) else n
        for n, hole, before, after in zip(counts, opened.holes, shapes, resized, strict=True)
    ]
    counts = up_to_whole_axes(opened.holes, resized, counts)
    if not leaves_room(opened.holes, resized, counts):
        return
    if resized != shapes and sum(int(np.prod(s, dtype=int)) for s in resized) <= most:
        yield opened.at(resized, counts, ascending=False)


def _free_axes(signature: Signature, hints: Hints) -> list[Shape]:
    """The sizes of each array that no source states; none where an array is not known by its path."""
    opened, parts = template(signature, hints.clues, list(hints.specs)), _arrays(signature)
    if any(hole.path not in parts for hole in opened.holes):
        return []
    return [_free(hole, parts[hole.path][0]) for hole in opened.holes]


def _free(hole: Hole, shape: Shape) -> Shape:
    """The sizes that no source states as numbers; 0 for those that one does: three coordinates stay three."""
    stated = hole.dims if hole.dims is not None and len(hole.dims) == len(shape) else None
    dims = ("",) * len(shape) if stated is None else stated
    return tuple(0 if dim.isdigit() else n for n, dim in zip(shape, dims, strict=True))


def _arrays(signature: Signature) -> dict[str, tuple[Shape, int]]:
    """By path the shape of each array, and what the integers of a table are below."""
    found: dict[str, tuple[Shape, int]] = {}
    for name, value in signature.arguments:
        if isinstance(value, Fixed) and isinstance(value.value, np.ndarray):
            below = int(value.value.max()) + 1 if value.value.size else 1
            found[name] = value.value.shape, below
    return found | {leaf.path: (leaf.shape, 0) for leaf in signature.leaves}


def with_other_entries(signature: Signature, name: str, hints: Hints) -> Iterator[Signature]:
    """The signature with another integer at the end of one table: a size, which often marks padding, or a sign of it.

    Integers that name no place are tried only where something says that there may be such.
    """
    table = dict(signature.arguments).get(name)
    distinct = any(clue.distinct for clue in hints.clues.get(name, ()))
    if distinct or not isinstance(table, Fixed) or table.value.dtype.kind not in "iu":
        return  # a size is no place, and what is there already would be named twice
    sizes = dict.fromkeys(n for leaf in signature.leaves for n in leaf.shape)
    inside = range(int(table.value.max(initial=0)) + 1)
    # Of what is -1 where it names no place, no size says that.
    marked = any(clue.domain.startswith("in -") for clue in hints.clues.get(name, ()))
    beyond = () if name not in hints.outside else _MARKS if marked else (*sizes, *_MARKS)
    entries = [e for e in dict.fromkeys((*sizes, *_MARKS)) if e in inside or e in beyond]
    for entry in entries:
        ending = table.value.copy()
        ending[-1] = entry
        yield signature.with_argument(name, replace(table, value=ending))


def past_bounds(signature: Signature, condition: str, hints: Hints) -> Iterator[Signature]:
    """The signature with a bound moved far, where a condition compares with one that nothing here reaches: `weights < cap`.

    Only what the function cuts something off by: a threshold may be where an approximation begins to hold.
    Downwards first: what is capped at 10 hardly comes to that in a row of three.
    """
    for name, value in signature.arguments:
        asked = re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", condition)
        if name not in hints.cut_off_by or not asked or not isinstance(value, Fixed):
            continue
        if type(value.value) is float and value.value:
            for share in (1 / _FAR, _FAR):
                moved = float(f"{share * value.value:.3g}")
                source = f"so that `{condition}` goes both ways"
                yield signature.with_argument(name, Fixed(moved, repr(moved), source))
