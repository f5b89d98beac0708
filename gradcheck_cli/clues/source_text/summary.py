"""Clues from facts: what contradicts itself says nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.source_text.axes import AXES
from gradcheck_cli.clues.source_text.facts import About, Facts, quoted
from gradcheck_cli.clues.source_text.values import Dim
from gradcheck_cli.clues.usual_numbers import usual_sizes
from gradcheck_cli.inputs.clue import ANOTHER, Clue, Entry, Kind
from gradcheck_cli.inputs.names import says_how_many
from gradcheck_cli.inputs.signature import OMITTED

_COUNTS_OF_DATA = "in 0..6"
# `lengths`, `valid_len`, `seq_lens`
_A_LENGTH = re.compile(r"(?:\w+_)?len(?:gth)?s?")
_ARRAYS = {Kind.ARRAY: "f32", Kind.INTEGERS: "i32", Kind.BOOLS: "bool"}
_SIDES = ((2, 3), (3, 2))  # of a tile
# Where two kinds are stated, the one that says more.
_FINER = {
    frozenset({Kind.AXIS, Kind.WHOLE}): Kind.AXIS,
    frozenset({Kind.AXIS, Kind.NUMBER}): Kind.AXIS,
    frozenset({Kind.WHOLE, Kind.NUMBER}): Kind.WHOLE,
    frozenset({Kind.WHOLE, Kind.INTEGERS}): Kind.WHOLE,
    frozenset({Kind.WORD, Kind.FUNCTION}): Kind.WORD,
    frozenset({Kind.FLAG, Kind.BOOLS}): Kind.FLAG,
}


def summary(facts: Facts, defaults: Mapping[str, object]) -> dict[str, Clue]:
    """The clue for each parameter, and for each part of one, of which the text says something."""
    _settle(facts)
    _guess_ranks(facts)
    ranks = {path: rank for path, a in facts.about.items() if (rank := _rank(a)) is not None}
    texts = facts.dims.texts(ranks)
    clues = {}
    for path, about in facts.about.items():
        sketch = _Sketch(path, about, facts, ranks, texts, defaults)
        clue = sketch.clue()
        if clue is not None:
            clues[path] = clue
    return clues


def _rank(about: About) -> int | None:
    """The number of axes that the first text gives that gives one; none if it gives two."""
    if about.ranks and len(several := next(iter(about.ranks.values()))) == 1:
        return next(iter(several))
    return None


def _settle(facts: Facts) -> None:
    """What follows of products and of equal shapes, once all ranks are read."""
    for one, other in facts.pairs:
        for left, right in ((one, other), (other, one)):
            count = _rank(facts.about[left.path])
            if count is None or left.dropped or right.dropped:
                continue
            if not facts.about[right.path].ranks:
                facts.about[right.path].ranks[""] = {count}
            if _rank(facts.about[right.path]) == count:
                for axis in range(count):
                    facts.dims.join(Dim(left.path, axis), Dim(right.path, axis))
            break
    for (left, outer), (right, axis) in facts.products:
        about = facts.about[right.path]
        count = _rank(about)
        least = about.least_rank if count is None else count
        inner = -1 if count == 1 + right.dropped else axis if least >= 2 + right.dropped else None
        if inner is not None:
            facts.dims.join(Dim(right.path, inner), Dim(left.path, outer))


def _guess_ranks(facts: Facts) -> None:
    """Of two arrays of which one axis is a multiple of the other's at the same place, both likely have as many axes."""
    for left, (_, right) in facts.dims.multiples.items():
        for one, other in ((left, right), (right, left)):
            about = facts.about.get(one.path)
            if left.axis == right.axis and about is not None and about.likely_rank is None:
                about.likely_rank = _rank(facts.about.get(other.path, About()))


@dataclass(frozen=True, slots=True)
class _Sketch:
    path: str
    about: About
    facts: Facts
    ranks: Mapping[str, int]
    texts: Mapping[Dim, str]
    parameters: Mapping[str, object]  # with their defaults

    @property
    def default(self) -> object:
        return self.parameters.get(self.path, OMITTED)

    def clue(self) -> Clue | None:
        kind = self._kind()
        if kind in _ARRAYS or kind is Kind.NOTHING:
            clue = self._of_array(kind)
        else:
            clue = Clue(
                self._source(), kind=kind, values=self._values(kind),
                domain=self._domain(kind), divides=self._divides(), entries=self._entries(),
            )  # fmt: skip
        is_part = self.path not in self.parameters  # that it is read says that it is there
        nothing = Clue(clue.source, answered=clue.answered)  # a gradient alone says nothing
        return None if clue == nothing and not is_part else clue

    def _kind(self) -> Kind:
        """The one kind that the text gives it; arrays that are also plain are neither."""
        kinds = set(self.about.kinds)
        if self.about.sizes > 1:
            return Kind.SHAPE
        if kinds <= {Kind.ARRAY} and (self._marks or self._counts_places):
            return Kind.INTEGERS
        shaped = self.about.least_rank or self.about.ranks
        if self.about.asked:  # it may be of several types
            kinds -= {Kind.FUNCTION, Kind.NUMBER, *([] if shaped else [Kind.ARRAY])}
        if isinstance(self.default, bool) and kinds == {Kind.NUMBER}:
            return Kind.FLAG
        if Kind.FLAG in kinds and not (isinstance(self.default, bool) or self.default is OMITTED):
            kinds.discard(Kind.FLAG)
        if len(kinds) > 1 and kinds & {Kind.INTEGERS, Kind.BOOLS}:
            kinds.discard(Kind.ARRAY)
        if len(kinds) > 1 and Kind.FLAG in kinds and not isinstance(self.default, bool):
            kinds.discard(Kind.FLAG)
        if len(kinds) == 1:
            return kinds.pop()
        if Kind.ARRAY in kinds:  # an array in one text, and plain in another
            return Kind.ARRAY if shaped else Kind.NOTHING
        return _FINER.get(frozenset(kinds), Kind.NOTHING)

    def _of_array(self, kind: Kind) -> Clue:
        rank = self.ranks.get(self.path)
        axes = self._axes() if kind in _ARRAYS else {}
        least = max(self.about.least_rank, self.about.maybe_rank if kind in _ARRAYS else 0)
        reach = [axis + 1 if axis >= 0 else -axis for axis in axes]
        spec = ""
        if rank is not None and axes:
            spec = (
                f"{_ARRAYS.get(kind, 'f32')}[{' '.join(self._full(rank, axes))}]{self._below(kind)}"
            )
        optional = (None,) if None in self.about.values else ()
        return Clue(
            self._source(),
            spec=spec,
            rank=rank,
            least_rank=rank if rank is not None else max([least, *reach]),
            domain=self._domain(kind),
            values=optional,
            kind=kind,
            factor=self.about.factor,
            likely_rank=self.about.likely_rank,
            declined=self.about.constant,
            answered=self.about.answered,
            first=_run({a: t for a, t in axes.items() if a >= 0}),
            last=_run({-1 - a: t for a, t in axes.items() if a < 0})[::-1],
        )

    def _axes(self) -> dict[int, str]:
        """A text for each axis of which something is said."""
        rank = self.ranks.get(self.path)
        said: dict[int, str] = {}
        for dim, text in self.texts.items():
            if dim.path != self.path:
                continue
            axis = dim.axis + rank if rank is not None and dim.axis < 0 else dim.axis
            if rank is not None and not 0 <= axis < rank:
                continue
            least = self.facts.dims.least_size(Dim(self.path, axis), dict(self.ranks))
            alone = text not in [t for d, t in self.texts.items() if d != dim] and not self._named(
                dim
            )
            if text.isdigit() or not alone or "*" in text or text in self._referred():
                said[axis] = text
            elif least:
                full = self.facts.dims.seems_full(Dim(self.path, axis), dict(self.ranks))
                said[axis] = f"{least}{'?' if full else '+'}"
        return said

    def _referred(self) -> set[str]:
        """Names of dimensions that integers stay below, or that a whole number divides."""
        dims = [
            d for a in self.facts.about.values() for d in (*a.bounds, *(m for _, m in a.multiples))
        ]
        times = {self._text(d) for _, d in self.facts.dims.multiples.values()}
        return times | {self._text(d) for d in dims if isinstance(d, Dim)}

    def _text(self, dim: Dim) -> str:
        rank = self.ranks.get(dim.path)
        axis = dim.axis + rank if rank is not None and dim.axis < 0 else dim.axis
        return self.texts.get(Dim(dim.path, axis), "")

    def _named(self, dim: Dim) -> bool:
        root = self.facts.dims.root(dim)
        return any(
            not isinstance(node, Dim) and self.facts.dims.root(node) == root
            for node in list(self.facts.dims.parents)
        )

    def _full(self, rank: int, axes: Mapping[int, str]) -> list[str]:
        """Names for all axes; those of a least size only have names of their own here."""
        letters = "".join(c if c.isalnum() else "_" for c in self.path).strip("_")
        return [
            text if (text := axes.get(axis, "+")) and text[-1] not in "+?" else f"{letters}_{axis}"
            for axis in range(rank)
        ]

    @property
    def _counts_places(self) -> bool:
        """Is it compared with places, and has no gradient: how many there are in each row?"""
        return self.about.beside_counts and self.about.constant and not self.about.answered

    @property
    def _marks(self) -> str:
        """The range of whole numbers that an array without a gradient is compared with; empty for one alone, unless it is asked what is -1.

        Of what are places in an array for other reasons, a side of zero says only where they begin; so it does
        of what says how many there are.
        """
        marks = self._all_marks
        if marks == [-1] and self.about.equal_to_marks:
            return ">= -1"  # places, and what stands for none
        equals_none = marks == [0] and self.about.equal_to_marks
        if equals_none and says_how_many(self.path) and self.facts.is_of_counts:
            return _COUNTS_OF_DATA  # of which some are none, and others several
        if len(marks) < 2:
            return ""
        sides = min(marks) < 0 and max(marks) <= 1 and not self.about.equal_to_marks
        if (Kind.INTEGERS in self.about.kinds and sides) or says_how_many(self.path):
            return f">= {min(marks)}"
        return f"in {min(marks)}..{max(marks) + 1}"

    @property
    def _least_mark(self) -> int:
        """The least of places in an array: -1 where the text asks which of them are none."""
        return min([0, *self._all_marks])

    @property
    def _all_marks(self) -> Sequence[int]:
        return list(self.about.marks) if self.about.constant and self.default is OMITTED else []

    def _domain(self, kind: Kind) -> str:
        for bound in self.about.bounds if kind is Kind.INTEGERS else ():
            text = self._text(bound) if isinstance(bound, Dim) else bound
            if text:
                return f"in {self._least_mark}..{text}"
        if counts := self._counts_along_an_axis(kind):
            return counts
        domains = [*self.about.domains, *([self._marks] if kind is Kind.INTEGERS else [])]
        return domains[0] if domains else self._interval()

    def _counts_along_an_axis(self, kind: Kind) -> str:
        """From one item to all, where integers say how many of an axis count; from 0 or -1 where the text asks about these."""
        named = says_how_many(self.path) or _A_LENGTH.fullmatch(self.path)
        sizes = [*self.about.counted, *(self.about.outside if named else ())]
        along = next(filter(None, map(self._text, sizes)), "")
        may_count = kind is Kind.INTEGERS or (kind is Kind.NOTHING and self.about.constant)
        if not along or not may_count or self.about.is_last:
            return ""
        least = min([1, *(mark for mark in self.about.asked_whether if mark >= -1)])
        return f"in {least}..{along}+1"

    def _interval(self) -> str:
        """The interval between the limits of a number."""
        limits = self.about.limits
        if len(limits) < 2:
            return next((f"{sign} {number}" for sign, number in limits.values()), "")
        (low_sign, low), (high_sign, high) = limits[">"], limits["<"]
        if low >= high:
            return ""
        left, right = "[" if low_sign == ">=" else "(", "]" if high_sign == "<=" else ")"
        return f"in {left}{low}, {high}{right}"

    def _below(self, kind: Kind) -> str:
        """The domain of integers that stay below a dimension, as a spec has it."""
        domain = self._domain(kind)
        dims = [self._text(b) for b in self.about.bounds if isinstance(b, Dim)]
        stated = domain.partition("..")[2] in dims or domain == self._marks
        return f" {domain}" if kind is Kind.INTEGERS and stated and domain else ""

    def _divides(self, place: int | None = None) -> tuple[str, ...]:
        texts = [self._text(dim) for here, dim in self.about.multiples if here == place]
        return tuple(dict.fromkeys(t for t in texts if t))

    def _entries(self) -> tuple[Entry, ...]:
        """Each of several sizes, as long as all are told apart."""
        named = self.about.entries
        places = range(self.about.sizes if len(named) == self.about.sizes else 0)
        return tuple(Entry(named.get(i, ""), self._divides(i)) for i in places)

    def _values(self, kind: Kind) -> tuple[object, ...]:
        values = list(self.about.values)
        if kind is Kind.FLAG:
            values = [True, False]
        if kind is Kind.SHAPE and self.about.sizes > 1:
            sides = _SIDES if self._has_sides else usual_sizes(self.path, self.about.sizes)
            values = [*sides, *values]
        if kind is Kind.AXIS:
            values = [*AXES, *(v for v in values if v not in AXES)]
        if kind is Kind.WORD:
            values = [v for v in values if isinstance(v, str) or v is None]
            # `if mode == "mul"`, and something else where it is not
            values += [ANOTHER] if len({*values, *self._word_by_default}) == 1 else []
        plain = self.default is None or isinstance(self.default, (bool, int, float, str))
        if plain and (values or kind is Kind.WORD):
            values = [self.default, *values]
        unique: list[object] = []
        for value in values:
            if not any(value == u and type(value) is type(u) for u in unique):
                unique.append(value)
        return tuple(unique)

    @property
    def _word_by_default(self) -> tuple[str, ...]:
        """What it is where it is left out, if that is a word."""
        return (self.default,) if isinstance(self.default, str) else ()

    @property
    def _has_sides(self) -> bool:
        """Are they two sizes that divide one axis: the sides of a tile?"""
        divided = [entry.divides for entry in self._entries()]
        return len(divided) == 2 and bool(divided[0]) and divided[0] == divided[1]

    def _source(self) -> str:
        nodes = self.about.nodes
        text = quoted(nodes[min(nodes)]) if nodes else ""
        return f"the body `{text}`" if text else "the body"


def _run(texts: Mapping[int, str]) -> tuple[str, ...]:
    """Texts by their place, with empty ones between."""
    return tuple(texts.get(i, "") for i in range(max(texts, default=-1) + 1))
