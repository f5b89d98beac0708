"""A small change of a program: its kind, its words and the place that it changes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.source_spot import Spot


class Part(StrEnum):
    """Whose program is changed."""

    PRIMAL = "the function"
    RULE = "the rule"


class Kind(StrEnum):
    """What a change changes; in the order in which changes are tried."""

    AXIS = "axis"
    REDUCTION = "reduction"
    ARGUMENT = "argument"
    COTANGENT = "cotangent"
    OPERAND = "operand"
    BRANCH = "branch"
    ORDER = "order"
    TERM = "term"
    FACTOR = "factor"
    SIGN = "sign"
    INDEX = "index"
    DIRECTION = "direction"
    CONSTANT = "constant"
    COMPARISON = "comparison"

    @property
    def shapes_tell(self) -> bool:
        """Is this a change that only other shapes or branches may show?"""
        return self in _TOLD_BY_SHAPES


class Showing(IntEnum):
    """What inputs make of a change, from least to most: of two signatures, the greater stands."""

    REFUSED = 0  # it raises, or alters a shape
    EQUAL = 1  # no difference at all, as far as could be seen
    DEGENERATE = 2  # these shapes leave nothing to change: others would
    FORGIVEN = 3  # the difference is none that a law reports
    UNSEEN = 4  # it differs elsewhere, at no judged probe
    SHOWN = 5
    TAKEN = 6  # no change: a way of a choice that some row went


_TOLD_BY_SHAPES = frozenset(
    {
        Kind.AXIS, Kind.REDUCTION, Kind.ARGUMENT, Kind.COTANGENT, Kind.OPERAND, Kind.BRANCH,
        Kind.INDEX, Kind.DIRECTION,
    }
)  # fmt: skip


Place = tuple[Part, str, int, int, str]


@dataclass(frozen=True, slots=True)
class Key:
    """What is the same change at another signature: place and words, never numbers of slots."""

    part: Part
    path: str
    line: int
    column: int
    name: str  # of the primitive
    number: int  # among equal primitives of that place
    kind: Kind
    mark: str

    @property
    def place(self) -> Place:
        """The expression and the primitive, whatever is changed there."""
        return self.part, self.path, self.line, self.column, self.name


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One small change; without a program, the shapes at hand leave nothing to change."""

    key: Key
    words: str
    spot: Spot | None
    program: Program | None
    leaves: tuple[int, ...] = ()  # the arguments that reach it
    table: str | None = None  # the argument of integers that alone decides whether it shows

    @property
    def kind(self) -> Kind:
        return self.key.kind
