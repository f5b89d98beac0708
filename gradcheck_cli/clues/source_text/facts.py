"""Facts that source text states of parameters, as they are met; what contradicts itself is left out later."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from gradcheck_cli.clues.source_text.dims import Dims, Label
from gradcheck_cli.clues.source_text.values import (
    Computed,
    Constant,
    Content,
    Dim,
    Member,
    Part,
    Pieces,
    Scalar,
    Turned,
    Value,
    elements,
    itself,
)
from gradcheck_cli.inputs.clue import Kind

_LONGEST_QUOTE = 60
_SHARED = 2  # heads of queries that share one of keys
_MOST_RANK = 6
_MOST_SIZE = 16
_MOST_MARK = 8


Inner = tuple[Part, int]  # an operand of `@`, and which of its axes is summed over


class Weight(IntEnum):
    """Weights of facts, where a clue quotes one line only."""

    RANK, LEAST, KIND, VALUE = range(4)


@dataclass(slots=True)
class About:
    """Facts about one parameter, or one part of a parameter."""

    ranks: dict[str, set[int]] = field(default_factory=dict)  # of each text
    least_rank: int = 0
    kinds: dict[Kind, None] = field(default_factory=dict)
    values: dict[object, None] = field(default_factory=dict)
    domains: dict[str, None] = field(default_factory=dict)
    limits: dict[str, tuple[str, float]] = field(default_factory=dict)  # by `<` and `>`
    asked: bool = False  # the text asks of which type it is
    maybe_rank: int = 0  # at least so many axes, if it is an array
    likely_rank: int | None = None  # of the gradient that the rule returns for it
    factor: int = 1  # each of its axes is a multiple of this
    # dimensions that it divides, or the entry at a place of it
    multiples: list[tuple[int | None, Dim]] = field(default_factory=list)
    entries: dict[int, str] = field(default_factory=dict)  # what the text calls them, by place
    bounds: list[Dim | str] = field(default_factory=list)  # its integers stay below
    # whole numbers on both sides of comparisons; is it asked for any of them itself?
    marks: dict[int, None] = field(default_factory=dict)
    equal_to_marks: bool = False
    asked_whether: dict[int, None] = field(default_factory=dict)  # they are these: `lengths == 0`
    beside_counts: bool = False  # its elements are compared with 0, 1, 2 and so on
    counted: list[Dim] = field(default_factory=list)  # as far as these sizes
    outside: list[Dim] = field(default_factory=list)  # from it on places are left out, or are kept
    is_last: bool = False  # it is the last place itself: `arange(n) <= last`
    sizes: int = 0  # so many whole numbers, or more, are in it
    constant: bool = False  # the rule gives it no gradient
    answered: bool = False  # the rule gives it one
    nodes: dict[Weight, ast.AST] = field(default_factory=dict)  # the first that says so


@dataclass(slots=True)
class Facts:
    """Facts about all parameters of one function."""

    about: dict[str, About] = field(default_factory=dict)
    dims: Dims = field(default_factory=Dims)
    products: list[tuple[Inner, Inner]] = field(default_factory=list)
    pairs: list[tuple[Part, Part]] = field(default_factory=list)  # arrays of one shape
    stated_ranks: Mapping[str, int] = field(default_factory=dict)  # what other sources say
    text: str = ""  # which text is read
    scope: str = ""  # within it, where names of dimensions mean one thing
    is_of_counts: bool = False  # it has the gamma function of them, as a likelihood has
    shapes_hold: bool = True  # false: only where a condition on the shapes holds
    node: ast.AST | None = None  # the statement that is read
    scopes: int = 0
    readings: int = 0  # of functions inside of texts
    plain: frozenset[str] = frozenset()  # parameters that are single numbers by their default
    # What stands for parameters that are called.
    functions: Mapping[str, Callable[..., object]] = field(default_factory=dict)

    # How often the text gave a name a value, and the axis that the value under this name was an index to.
    given: dict[str, int] = field(default_factory=dict)
    read_by: dict[tuple[str, str, int], Dim] = field(default_factory=dict)

    # -- where the reader is --------------------------------------------------------

    @contextmanager
    def within(self, shapes_hold: bool) -> Iterator[None]:
        """Read a branch: names of dimensions in it are its own."""
        scope, held = self.scope, self.shapes_hold
        self.scopes += 1
        self.scope, self.shapes_hold = f"{self.text}.{self.scopes}", held and shapes_hold
        try:
            yield
        finally:
            self.scope, self.shapes_hold = scope, held

    @contextmanager
    def reading(self, text: str) -> Iterator[None]:
        """Read another function's text."""
        text_before, scope = self.text, self.scope
        self.scopes += 1
        self.text, self.scope = text, f"{text}.{self.scopes}"
        try:
            yield
        finally:
            self.text, self.scope = text_before, scope

    def new_scope(self) -> str:
        """A scope for the names of one string of `einsum`."""
        self.scopes += 1
        return f"{self.text}.{self.scopes}"

    def part(self, path: str) -> Part:
        """A part of a parameter; that the text reads it says that it is there."""
        self.about.setdefault(path, About())
        return Part(path)

    def of(self, path: str, weight: Weight) -> About:
        """The facts about this path, with the line that is read as their source."""
        about = self.about.setdefault(path, About())
        if self.node is not None:
            about.nodes.setdefault(weight, self.node)
        return about

    # -- shapes ----------------------------------------------------------------------

    def rank(self, part: Value, count: int) -> None:
        """The part has so many axes."""
        part, count = _without_new(part.part if isinstance(part, Turned) else part, count)
        if isinstance(part, Part) and self.shapes_hold and 0 <= count + part.dropped <= _MOST_RANK:
            about = self.of(part.path, Weight.RANK)
            about.ranks.setdefault(self.text, set()).add(count + part.dropped)
            about.kinds.setdefault(Kind.ARRAY)

    def least_rank(self, part: Value, count: int) -> None:
        """The part has so many axes or more."""
        part, count = _without_new(part, count)
        if isinstance(part, Part) and self.shapes_hold and 0 <= count + part.dropped <= _MOST_RANK:
            about = self.of(part.path, Weight.LEAST)
            about.least_rank = max(about.least_rank, count + part.dropped)
            about.kinds.setdefault(Kind.ARRAY)

    def tree(self, path: str) -> None:
        """The part holds several arrays, or is one of these."""
        self.about.setdefault(path, About())
        if any(other.startswith(f"{path}[") for other in self.about):
            self.kind(Part(path), Kind.TREE)

    def returned(self, path: str, gradient: Value) -> None:
        """The rule returns this as the gradient of the part."""
        whole = isinstance(gradient, Computed) and gradient.whole
        axes = gradient.axes if whole and isinstance(gradient, Computed) else ()
        if (whole or isinstance(gradient, Scalar)) and len(axes) <= _MOST_RANK:
            self.about.setdefault(path, About()).likely_rank = len(axes)

    def single(self, path: str) -> None:
        """The parameter has no axes, if its text says nothing else."""
        about = self.about.setdefault(path, About())
        if not about.ranks and not about.least_rank:
            self.rank(Part(path), 0)

    def answered(self, path: str, gradient: Value) -> None:
        """The rule returns something, or None, for a part of which more is known: a gradient alone says nothing."""
        if gradient != Constant(None) and path in self.about:
            self.about[path].answered = True

    def sized(self, part: Part) -> Dim:
        """The length of the part, which may be a list."""
        if self.shapes_hold:
            about = self.about.setdefault(part.path, About())
            about.maybe_rank = max(about.maybe_rank, 1 + part.dropped)
        return self.axis(part, 0)

    def array(self, part: Value) -> None:
        """The part is an array, of whatever shape."""
        if isinstance(part, Part):
            self.of(part.path, Weight.KIND).kinds.setdefault(Kind.ARRAY)

    def axis(self, part: Part, axis: int) -> Dim:
        """The size of this axis of the part."""
        return Dim(part.path, axis if axis < 0 else axis + part.dropped)

    def name(self, dim: Dim, name: str, scope: str = "", rank: int = 0) -> None:
        """The text calls this dimension so."""
        if self.shapes_hold and name.isidentifier() and name.strip("_"):
            self.dims.join(dim, Label(scope or self.scope, name, rank))

    def equal(self, one: Dim, other: Dim) -> None:
        """Two dimensions are equal."""
        if self.shapes_hold:
            self.dims.join(one, other)

    def indexed_by(self, name: str, axis: Dim) -> None:
        """What the text made under this name is an index to this axis: all arrays that it is one to are as long."""
        if name not in self.given or not self.shapes_hold:
            return
        first = self.read_by.setdefault((self.text, name, self.given[name]), axis)
        if first == axis:
            return
        self.equal(first, axis)
        for dim in (first, axis):
            about = self.of(dim.path, Weight.LEAST)
            about.maybe_rank = max(about.maybe_rank, 1 + dim.axis)
            about.kinds.setdefault(Kind.ARRAY)

    def size(self, dim: Dim, size: int) -> None:
        """This dimension has this size."""
        if self.shapes_hold and 0 < size <= _MOST_SIZE:
            self.dims.root(dim)
            self.dims.sizes.setdefault(dim, size)

    def least_size(self, dim: Dim, size: int) -> None:
        """This dimension has this size or a larger one."""
        if self.shapes_hold and 1 < size <= _MOST_SIZE:
            self.dims.root(dim)
            self.dims.least_sizes[dim] = max(size, self.dims.least_sizes.get(dim, 0))

    def column(self, dim: Dim, place: int) -> None:
        """This place of the dimension is read alone."""
        self.least_size(dim, place + 1 if place >= 0 else -place)
        if self.shapes_hold and place >= 0:
            self.dims.columns.setdefault(dim, set()).add(place)

    def alike(self, one: Part, other: Part) -> None:
        """Two arrays have one shape."""
        self.array(one)
        self.array(other)
        if self.shapes_hold:
            self.pairs.append((one, other))

    def product(self, left: Value, right: Value) -> None:
        """The operands of a matrix product, each with its place of the inner dimension."""
        operands = []
        for value, place in ((left, -1), (right, -2)):
            part = value.part if isinstance(value, Turned) else value
            self.least_rank(part, 2 if isinstance(value, Turned) else 1)
            if isinstance(part, Part):
                operands.append((part, -3 - place if isinstance(value, Turned) else place))
        if len(operands) == 2 and self.shapes_hold:
            self.products.append((operands[0], operands[1]))

    def factor(self, dim: Dim, number: int) -> None:
        """This dimension is a multiple of this number."""
        if self.shapes_hold and 1 < number <= _MOST_SIZE:
            self.dims.root(dim)
            self.dims.factors[dim] = math.lcm(number, self.dims.factors.get(dim, 1))

    def factor_of_all(self, part: Part, number: int) -> None:
        """Each axis of the part is a multiple of this number: one of them is chosen."""
        if self.shapes_hold and 1 < number <= _MOST_SIZE and not part.dropped:
            about = self.about.setdefault(part.path, About())
            about.factor = math.lcm(number, about.factor)

    def times(self, dim: Dim, count: int, other: Dim) -> None:
        """This dimension is so many times another one."""
        if self.shapes_hold and 1 < count <= _MOST_SIZE:
            self.dims.root(dim)
            self.dims.root(other)
            before, of = self.dims.multiples.get(dim, (0, other))
            self.dims.multiples[dim] = (max(count, before) if of == other else before, of)

    def pieces(self, cut: Pieces, count: int) -> None:
        """An axis is cut into so many pieces."""
        if cut.size is None:
            self.size(cut.axis, count)
        else:
            self.times(cut.axis, count, cut.size)

    # -- everything else -------------------------------------------------------------

    def kind(self, value: Value, kind: Kind, values: Sequence[object] = ()) -> None:
        """The value, if it is a parameter as it was passed, is of this kind and may be one of these."""
        part = itself(value)
        path = "" if part is None else part.path
        if isinstance(value, Member) and kind is Kind.WHOLE:
            about = self.of(value.path, Weight.KIND)
            about.sizes = max(about.sizes, value.count)
            about.entries.setdefault(value.place, value.name)
        if isinstance(value, Member) and value.name and kind in (Kind.INTEGERS, Kind.BOOLS):
            self._rows(value, kind)
        if kind in (Kind.INTEGERS, Kind.BOOLS):  # what holds of the elements in any shape
            path = elements(value)
        if path:
            about = self.of(path, Weight.KIND)
            about.kinds.setdefault(kind)
            about.values |= dict.fromkeys(values)

    def _rows(self, row: Member, kind: Kind) -> None:
        """A table of so many rows, which the text unpacks: `sources, targets = edge_index`."""
        table = Part(row.path)
        self.rank(table, 2)
        self.size(self.axis(table, 0), row.count)
        self.kind(table, kind)

    def asked(self, value: Value) -> None:
        """The text asks of which type the value is: it may be of several."""
        part = itself(value)
        if part is not None:
            self.about.setdefault(part.path, About()).asked = True

    def may_be(self, value: Value, *values: object) -> None:
        """The value, if it is a parameter as it was passed, is compared with these."""
        part = itself(value)
        if part is not None:
            self.of(part.path, Weight.VALUE).values |= dict.fromkeys(values)

    def compared(self, value: Value, sign: str, number: int) -> None:
        """The elements are compared with a whole number: some are on one side of it, some on the other."""
        path = elements(value)
        if path and abs(number) <= _MOST_MARK:
            beside = {">=": (-1, 1), "<": (-1, 1), ">": (1,), "<=": (1,)}.get(sign, ())
            about = self.about.setdefault(path, About())
            about.marks |= dict.fromkeys((number, *(number + step for step in beside)))
            about.equal_to_marks |= not beside
            about.asked_whether |= {number: None} if sign == "==" else {}

    def stands_beside_counts(self, value: Value) -> None:
        """The elements are compared with places that are counted: `arange(n) < lengths[:, None]`."""
        path = elements(value)
        if path:
            self.about.setdefault(path, About()).beside_counts = True

    def counts_along(self, value: Value, size: Value, *, below: bool) -> None:
        """The elements are compared with the places along an axis: they say how many of these count, where these are `below`."""
        path = elements(value)
        if path and isinstance(size, Dim):
            self.dims.root(size)
            about = self.about.setdefault(path, About())
            (about.counted if below else about.outside).append(size)

    def is_a_last_place(self, value: Value) -> None:
        """The elements are the last of the places that they are compared with, and no numbers of them."""
        path = elements(value)
        if path:
            self.about.setdefault(path, About()).is_last = True

    def constant(self, path: str) -> None:
        """The rule gives no gradient for this parameter."""
        self.about.setdefault(path, About()).constant = True

    def domain(self, value: Value, text: str) -> None:
        """The value, if it is a parameter as it was passed, lies there."""
        part = itself(value)
        if part is not None:
            self.of(part.path, Weight.VALUE).domains.setdefault(text)

    def limit(self, value: Value, sign: str, number: float) -> None:
        """The value, if it is a parameter as it was passed, is a number on one side of this one."""
        part = itself(value)
        if part is not None:
            self.kind(value, Kind.NUMBER)
            self.of(part.path, Weight.VALUE).limits[sign[0]] = (sign, number)

    def divides(self, value: Value, dim: Value) -> None:
        """The dimension is a multiple of the value; of another array's dimension at least twice that."""
        part = value if isinstance(value, Member) else itself(value)
        if isinstance(value, Dim) and isinstance(dim, Dim) and value.path != dim.path:
            self.times(dim, _SHARED, value)
        if part is not None and isinstance(dim, Dim):
            place = part.place if isinstance(part, Member) else None
            self.dims.root(dim)
            self.of(part.path, Weight.KIND).multiples.append((place, dim))

    def below(self, value: Value, bound: Value) -> None:
        """The integers stay below a dimension, or below a parameter that is a whole number."""
        path = elements(value)
        if not path:
            return
        if isinstance(bound, Dim):
            self.dims.root(bound)
            for other in self.of(path, Weight.KIND).bounds:
                if isinstance(other, Dim):  # integers that index both
                    self.equal(other, bound)
            self.of(path, Weight.KIND).bounds.append(bound)
        elif (count := itself(bound)) is not None:
            self.of(path, Weight.KIND).bounds.append(count.path)


def _without_new(value: Value, count: int) -> tuple[Value, int]:
    """A part, and how many axes it has itself, where the value has new ones."""
    if isinstance(value, Content) and value.added is not None:
        return Part(value.path), count - value.added
    return value, count


def quoted(node: ast.AST) -> str:
    """A statement as a report quotes it: its first line, cut where it is long."""
    try:
        text = ast.unparse(node).partition("\n")[0]
    except (ValueError, RecursionError, AttributeError):
        return ""
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"
