"""A call whose arrays have no shapes yet: a hole for each, with what sources say of it."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.infer.sizes import Size, unknown
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.distinct_places import distinct_places, leave_room
from gradcheck_cli.inputs.names import is_shape, is_splits
from gradcheck_cli.inputs.signature import GUESS, Fixed, Leaf, Signature, changed, root
from gradcheck_cli.inputs.stand_ins import floats, mask, raised, row, splits, table, tuples

_LAST_WORD = re.compile(r"([A-Za-z_]\w*)\W*$")
_VECTOR = re.compile(
    r"_?(b\w?\d*|bias|beta|gamma|scale|shift|gain|offset|slopes?|alpha|bias_\w+|\w+_(bias|scale))"
)
_MATRIX = re.compile(r"_?(w\w?\d*|weights?|kernel|matrix|[A-Z]\w?\d*|w_\w+|\w+_(kernel|weights?))")
_LEAST = re.compile(r">= (?P<least>-?\d+)")
_RANGE = re.compile(r"in\s+(?P<low>-?\d+)\s*\.\.\s*(?P<high>-?\w+(?:\+1)?)")
_AXES = re.compile(r"\[([^\[\]]*)\]")
_CALLED = re.compile(r"^d(\d+)$")
_MULTIPLE = re.compile(r"(?:(?P<times>\d+)\*)?(?P<name>[^\W\d]\w*)(?P<more>[+-]\d+)?")
# What a text says of a tuple: `of n integers`, `one for each of the k parts` is left to the search.
_COUNT = re.compile(r"\b(?:tuple|sequence|list)s? of (?P<n>[A-Z]|[a-z]|n_\w+|num_\w+|\d+) ")
_PRODUCT = re.compile(r"(?P<first>[^\W\d]\w*)\*(?P<rest>[^\W\d]\w*)")
_PARTS = 3  # as many as the first name of a product of two says: sizes are sums, and no products
_SUM = re.compile(r"(?:\d+\*)?[^\W\d]\w*(?:\+(?:\d+\*)?[^\W\d]\w*)+")
A_FIELD = "a field of "  # how the source of a field begins of which nothing is said
_RICHEST = "the richest that function and rule take"
_VECTOR_FIRST, _MATRIX_FIRST, _ANY = (1, 0, 2, 3, 4), (2, 1, 3, 4, 0), (2, 1, 0, 3, 4)


@dataclass(frozen=True, slots=True)
class Hole:
    """An array of a call whose shape is open; `dims` are its axes by name, where a source states them."""

    path: str
    kind: str  # "float", "held" of floats that stay as they are, "int", "bool", or "row": a tuple of whole numbers
    dims: tuple[str, ...] | None = None
    rank: int | None = None
    least_rank: int = 0
    likely_rank: int | None = None
    first: tuple[str, ...] = ()  # the first and the last axes by name, where there may be more
    last: tuple[str, ...] = ()
    factor: int = 1  # the size of each axis is a multiple of this
    # What other sources call an axis, counted from either end.
    also: tuple[tuple[str, int], ...] = ()
    below: str | None = None  # what integers are below: an axis by name, or a number
    least: int = 0  # of integers
    least_of: str = ""  # the path of other integers, which are nowhere above these
    alike: str = ""  # the path of another array, which has as many axes, as long each
    distinct: bool = False  # no two of these integers, or pairs of integers, are one
    quantity: bool = False  # these integers are counted with, and are no places
    splits: bool = False  # integers that say where the rows of a ragged array begin and end
    source: str = ""

    @property
    def settled(self) -> bool:
        """Is its number of axes stated?"""
        return self.dims is not None or self.rank is not None

    def members(self, rank: int) -> int | None:
        """The axis of a stated size that holds the members of pairs or triples of places."""
        if self.kind != "int" or rank < 2:
            return None
        dims = self.texts(rank)
        return next((a for a in (rank - 1, 0) if a < len(dims) and dims[a].isdigit()), None)

    def integers(
        self,
        shape: tuple[int, ...],
        count: int,
        source: str,
        ascending: bool,
        tables: Sequence[str],
    ) -> Fixed:
        """A table of this shape, of integers below the count; `tables` are the paths of all of them."""
        axis = self.members(len(shape))
        if self.distinct and leave_room(shape, count, axis):
            turn = tables.index(self.path)
            places = distinct_places(shape, count, source, axis, self.least, turn)
            in_order = ascending and axis is None
            return replace(places, value=np.sort(places.value)) if in_order else places
        if axis is not None and 1 < shape[axis] <= count:
            return tuples(shape, count, axis, source, self.least)
        beside = self.least_of if self.least_of in tables else self.path
        turn = tables.index(beside) + (self.least != 0)
        filled = table(shape, count, source, ascending, turn, self.least)
        return filled if beside == self.path else raised(filled, self.least + count - 1)

    def texts(self, rank: int) -> tuple[str, ...]:
        """What is said of each axis where there are so many; empty texts for the others."""
        if self.dims is not None:
            return self.dims
        front = (*self.first, *[""] * rank)[:rank]
        back = (*[""] * rank, *self.last)[len(self.last) :]
        both = [one or other for one, other in zip(front, back, strict=True)]
        return tuple("" if text.endswith(("+", "?")) else text for text in both)

    def ranks(self, allowed: Sequence[int]) -> list[int]:
        """Numbers of axes to try, likeliest first."""
        if self.dims is not None:
            return [len(self.dims)]
        if self.rank is not None:
            return [self.rank]
        order = [r for r in _order_of_ranks(self.path) if r in allowed and r >= self.least_rank]
        likely = () if self.likely_rank is None else (self.likely_rank,)
        return list(dict.fromkeys((*likely, *order))) or [self.least_rank]


@dataclass(frozen=True, slots=True)
class Template:
    """A call with its holes, in the order in which they stand."""

    signature: Signature
    holes: tuple[Hole, ...]

    @property
    def given(self) -> list[object]:
        """What is given for the arguments that are not differentiated."""
        return [getattr(value, "value", None) for _, value in self.signature.arguments]

    @property
    def wholes(self) -> dict[str, int]:
        """The positive whole numbers of the call, by name."""
        named = ((n, getattr(value, "value", None)) for n, value in self.signature.arguments)
        return {n: value for n, value in named if type(value) is int and value > 0}

    @property
    def numbers_of_objects(self) -> list[int]:
        """The positive whole numbers in the objects of the call."""
        objects = [v for v in self.given if is_dataclass(v) and not isinstance(v, type)]
        numbers = (getattr(each, part.name, None) for each in objects for part in fields(each))
        return [n for n in numbers if type(n) is int and n > 0]

    @property
    def text(self) -> str:
        """A text that is equal for calls that differ in the shapes of their arrays alone."""
        places = {hole.path for hole in self.holes}

        def without_shape(value: Any) -> Any:
            return _Place(value.path) if getattr(value, "path", "") in places else value

        return f"{self.holes} {self.signature.changed(without_shape).describe()}"

    def at(
        self,
        shapes: Sequence[tuple[int, ...]],
        counts: Sequence[int],
        ascending: bool,
        names: Sequence[tuple[str, ...]] = (),
    ) -> Signature:
        """The call with arrays of these shapes; integers are below the count of their hole.

        `names` are those of the axes, once the shapes are solved.
        """
        rows = zip(self.holes, shapes, counts, names or [()] * len(shapes), strict=True)
        by_path = {row[0].path: row for row in rows}
        tables = [hole.path for hole in self.holes if hole.kind == "int"]

        def shaped(value: Any) -> Any:
            if not isinstance(value, (Leaf, _Place)) or value.path not in by_path:
                return value
            hole, shape, count, axes = by_path[value.path]
            solved = f"solved as [{' '.join(axes)}]" if axes else "a single number"
            source = hole.source or f"{solved}: {_RICHEST}"
            if isinstance(value, Leaf):
                domain = value.domain if value.domain and value.domain.suits(shape) else None
                return replace(
                    value, shape=shape, source=source, domain=domain, recorded=None, axes=axes
                )
            if hole.kind == "held":
                return replace(floats(value.path, shape, source), axes=axes)
            if hole.kind == "bool":
                marks = mask(shape, source, self._turn(value.path, by_path))
                return replace(marks, axes=axes, path=value.path)
            if hole.splits:
                return replace(splits(shape, count, source), axes=axes, path=value.path)
            if hole.kind == "row":
                return replace(row(shape, hole.least, source), axes=axes, path=value.path)
            filled = hole.integers(shape, count, source, ascending, tables)
            return replace(filled, axes=axes, path=value.path)

        return self.signature.changed(shaped)

    def _turn(self, path: str, rows: Mapping[str, Sequence[Any]]) -> int:
        """The number of a mask among the masks; one more where integers of its shape stand beside it, which the first would follow."""
        masks = [hole.path for hole in self.holes if hole.kind == "bool"]
        shape = rows[path][1]
        beside = any(hole.kind == "int" and rows[hole.path][1] == shape for hole in self.holes)
        return masks.index(path) + beside


def is_guessed(leaf: Leaf) -> bool:
    """Is its shape one that no source states: the richest of those that fit, or the first that came to mind?"""
    return _RICHEST in leaf.source or leaf.source == GUESS or leaf.source.startswith(A_FIELD)


def is_open(leaf: Leaf) -> bool:
    """Does the source of its shape, as it is quoted, leave open how many axes there are: `(..., d)`?"""
    return "..." in leaf.source or "*batch" in leaf.source


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of an array that is not differentiated."""

    path: str


def template(
    signature: Signature, clues: Mapping[str, Sequence[Clue]], kept: Sequence[str]
) -> Template:
    """The call with its arrays open, but those of the `kept` parameters."""
    holes: list[Hole] = []

    def opener(name: str) -> Callable[[Any], Any]:
        def opened(value: Any) -> Any:
            path = getattr(value, "path", "") or name
            kind = _kind(value, path, clues.get(path, ()))
            if kind is None:
                return value
            holes.append(_hole(path, kind, clues.get(path, ())))
            return value if isinstance(value, Leaf) else _Place(path)

        return opened

    arguments = tuple(
        (name, value if name in kept else changed(value, opener(name)))
        for name, value in signature.arguments
    )
    return Template(Signature(arguments, signature.keywords), tuple(_ordered(holes)))


def _ordered(holes: Sequence[Hole]) -> list[Hole]:
    """The holes; integers that others do not exceed are at least as large as the least of these."""
    least = {hole.path: hole.least for hole in holes}
    return [replace(h, least=max(h.least, least.get(h.least_of, h.least))) for h in holes]


def unknown_shapes(holes: Sequence[Hole], ranks: Sequence[int]) -> list[tuple[Size, ...]]:
    """Each axis as an unknown of its own, but axes of one name; the first array's are the last numbers."""
    total = sum(ranks)
    numbers = iter(range(total - 1, -1, -1))
    named: dict[str, Size] = {}
    rows: dict[str, list[tuple[str, Size]]] = {}
    for hole, rank in zip(holes, ranks, strict=True):
        axes = [Size().plus(unknown(next(numbers)), hole.factor) for _ in range(rank)]
        rows[hole.path] = list(zip(hole.texts(rank), axes, strict=True))
    for text, _ in itertools.chain(*rows.values()):
        if (product := _PRODUCT.fullmatch(text)) is not None:
            named.setdefault(product["first"], Size(constant=_PARTS))
    stated = [rows[hole.path if hole.settled else _first_alike(hole, holes)] for hole in holes]
    for text, axis in itertools.chain(*stated):  # a sum may come before what it adds up
        if text and not _SUM.fullmatch(text):
            _stated(text, axis, named)
    return _close(
        [
            tuple(_stated(text, axis, named) if text else axis for text, axis in row)
            for row in stated
        ]
    )


def _first_alike(hole: Hole, holes: Sequence[Hole]) -> str:
    """The path of the first of all arrays that are said to be of one shape with this one, by whatever way."""
    by_path = {each.path: each for each in holes}
    group, waiting = {hole.path}, [hole.path]
    while waiting:
        path = waiting.pop()
        near = {each.path for each in holes if each.alike == path} | {by_path[path].alike}
        new = (near & by_path.keys()) - group
        group |= new
        waiting += sorted(new)
    return next(each.path for each in holes if each.path in group)


def agree(holes: Sequence[Hole], ranks: Sequence[int]) -> bool:
    """Have arrays that are said to be of one shape as many axes each?"""
    by_path = {hole.path: rank for hole, rank in zip(holes, ranks, strict=True)}
    return all(by_path.get(hole.alike, by_path[hole.path]) == by_path[hole.path] for hole in holes)


def unlike_fields(holes: Sequence[Hole], ranks: Sequence[int]) -> int:
    """How many objects have fields of different numbers of axes: one entry for each metal in all of them is likelier."""
    of_object: dict[str, set[int]] = {}
    for hole, rank in zip(holes, ranks, strict=True):
        if "." in hole.path and hole.dims is None:
            of_object.setdefault(root(hole.path), set()).add(rank)
    return sum(len(found) > 1 for found in of_object.values())


def _close(shapes: Sequence[tuple[Size, ...]]) -> list[tuple[Size, ...]]:
    """The shapes with unknowns of the lowest numbers, in their order: small primes stand for these."""
    used = sorted({u for shape in shapes for size in shape for u, _ in size.terms})
    lowest = {u: number for number, u in enumerate(used)}

    def moved(size: Size) -> Size:
        return Size(tuple((lowest[u], times) for u, times in size.terms), size.constant)

    return [tuple(moved(size) for size in shape) for shape in shapes]


def _stated(dim: str, axis: Size, named: dict[str, Size]) -> Size:
    """The size that a dimension says: a number, a name's, so many times that and a number more, or a sum."""
    if dim.isdigit():
        return Size(constant=int(dim))
    if (product := _PRODUCT.fullmatch(dim)) is not None:
        return Size().plus(_stated(product["rest"], axis, named), _PARTS)
    if _SUM.fullmatch(dim):
        return _summed(dim, axis, named)
    match = _MULTIPLE.fullmatch(dim)
    if match is None:
        return named.setdefault(dim, axis)
    times = Size().plus(named.setdefault(match["name"], axis), int(match["times"] or 1))
    return times.plus(Size(constant=int(match["more"] or 0)))


def _summed(dim: str, axis: Size, named: dict[str, Size]) -> Size:
    """The size of `I+H`, where at most one of the two is named nowhere else."""
    parts = dim.split("+")
    names = [match["name"] for part in parts if (match := _MULTIPLE.fullmatch(part)) is not None]
    if sum(name not in named for name in names) > 1:
        return named.setdefault(dim, axis)
    total = Size()
    for part in parts:
        total = total.plus(_stated(part, axis, named))
    return total


def with_columns(opened: Template) -> Template:
    """The call with as many columns as its text reads one by one: boxes of four numbers, pairs of places."""

    def sure(texts: Sequence[str]) -> tuple[str, ...]:
        return tuple(text.removesuffix("?") for text in texts)

    holes = (replace(h, first=sure(h.first), last=sure(h.last)) for h in opened.holes)
    return replace(opened, holes=tuple(holes))


def as_called(holes: Sequence[Hole]) -> list[Hole]:
    """The holes with the very sizes of a call elsewhere, which are named by their numbers: `d3`."""
    return [
        replace(hole, dims=tuple(_CALLED.sub(r"\1", dim) for dim in hole.dims))
        if hole.dims
        else hole
        for hole in holes
    ]


def _kind(value: Any, path: str, clues: Sequence[Clue]) -> str | None:
    if isinstance(value, Leaf):
        return "float" if value.centre is None else None
    if not isinstance(value, Fixed):
        return None
    if isinstance(value.value, tuple):
        return "row" if _is_row(value.value, path, clues) else None
    if not isinstance(value.value, np.ndarray):
        return None
    kinds = {"b": "bool", "i": "int", "u": "int", **({"f": "held"} if value.path else {})}
    return kinds.get(value.value.dtype.kind)


def _is_row(values: tuple[object, ...], path: str, clues: Sequence[Clue]) -> bool:
    """Is it a tuple of any number of whole numbers, and no shape: one for each of an axis, maybe?"""
    said = [clue for clue in clues if clue.kind is not Kind.NOTHING]
    open_ended = bool(said) and said[0].kind is Kind.SHAPE and not any(c.values for c in clues)
    whole = bool(values) and all(type(value) is int for value in values)
    return open_ended and whole and not is_shape(path)


def _hole(path: str, kind: str, clues: Sequence[Clue]) -> Hole:
    """A hole of which the strongest source that speaks of axes is believed."""
    least_rank = max((clue.least_rank for clue in clues), default=0)
    factor = math.lcm(*(clue.factor for clue in clues))
    least_of = next((clue.least_of for clue in clues if clue.least_of), "")
    alike = next((clue.alike for clue in clues if clue.alike), "")
    opened = Hole(
        path, kind, least_rank=least_rank, factor=factor, least_of=least_of, alike=alike,
        distinct=kind == "int" and any(clue.distinct for clue in clues),
        quantity=kind == "int" and any(clue.quantity for clue in clues),
        also=_also(clues),
    )  # fmt: skip
    if kind == "row":
        count = next((m[1] for c in clues if (m := _COUNT.search(c.source)) is not None), None)
        opened = replace(opened, rank=1, dims=None if count is None else (count,))
        return replace(opened, source=clues[0].source)
    if kind == "int" and is_splits(path):
        opened = replace(opened, splits=True, rank=1)
    for clue in clues:
        axes = _AXES.search(clue.spec)
        if axes is not None and not clue.spec.startswith(("{", "(")):
            dims = tuple(axes[1].replace(",", " ").split())
            below, least = _range(kind, [clue.spec, *_domains(clues)])
            return replace(opened, dims=dims, below=below, least=least, source=clue.source)
        if clue.rank is not None:
            below, least = _range(kind, _domains(clues))
            return replace(opened, rank=clue.rank, below=below, least=least, source=clue.source)
    below, least = _range(kind, _domains(clues))
    likely = next((clue.likely_rank for clue in clues if clue.likely_rank is not None), None)
    partly = next((clue for clue in clues if clue.first or clue.last), Clue(""))
    return replace(
        opened, first=partly.first, last=partly.last, below=below, least=least, likely_rank=likely
    )


def _also(clues: Sequence[Clue]) -> tuple[tuple[str, int], ...]:
    """Every name of each axis; none where the likeliest source has a number, for elsewhere that is as long by chance."""
    each = [dict.fromkeys(_names_of_axes(clue)) for clue in clues]
    first = next((names for names in each if names), {})
    counted = {place for name, place in first if name.isdigit()}
    names = (pair for pairs in each for pair in pairs)
    return tuple(dict.fromkeys(p for p in names if p[0].isdigit() or p[1] not in counted))


def _names_of_axes(clue: Clue) -> Iterator[tuple[str, int]]:
    """Each axis that a clue has a name for, with where it stands."""
    axes = _AXES.search(clue.spec)
    whole = [] if axes is None or clue.spec.startswith(("{", "(")) else axes[1].split()
    ahead = enumerate([*whole] or clue.first)
    behind = ((-1 - place, name) for place, name in enumerate(clue.last[::-1]))
    yield from ((name, place) for place, name in itertools.chain(ahead, behind) if name)


def _domains(clues: Sequence[Clue]) -> list[str]:
    return [clue.domain for clue in clues]


def _range(kind: str, texts: Sequence[str]) -> tuple[str | None, int]:
    """What integers are below, and the least of them, from the first text that says it."""
    ranges = [_RANGE.search(text) for text in texts] if kind == "int" else []
    first = next((match for match in ranges if match is not None), None)
    if first is None:
        least = [_LEAST.fullmatch(text) for text in texts] if kind == "int" else []
        return None, max((int(match["least"]) for match in least if match is not None), default=0)
    return first["high"], int(first["low"])


def _order_of_ranks(path: str) -> tuple[int, ...]:
    match = _LAST_WORD.search(path)
    name = match[1] if match else path
    if _VECTOR.fullmatch(name):
        return _VECTOR_FIRST
    return _MATRIX_FIRST if _MATRIX.fullmatch(name) else _ANY
