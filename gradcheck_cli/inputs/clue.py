"""Clues: what one source says of one parameter, before anything is tried."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

ANOTHER = "other"  # a word that a text compares nothing with


class Kind(Enum):
    """Kinds of arguments that a source can tell apart."""

    NOTHING = ""  # the source does not say
    ARRAY = "array"  # of floats
    INTEGERS = "integers"  # an array of them, or a single one that is traced
    BOOLS = "bools"
    TREE = "tree"  # a dictionary, a tuple or an object that holds arrays
    NUMBER = "number"  # plain: no array
    WHOLE = "whole number"  # plain: a size, a count, a stride
    AXIS = "axis"
    WORD = "word"
    FLAG = "flag"
    FUNCTION = "function"
    DTYPE = "dtype"
    SHAPE = "shape"
    KEY = "key"  # of random numbers


@dataclass(frozen=True, slots=True)
class Entry:
    """One of several sizes that a parameter holds: `(ph, pw)`."""

    name: str  # as the source calls it
    divides: tuple[str, ...] = ()  # dimensions that are multiples of it


@dataclass(frozen=True, slots=True)
class Clue:
    """What an annotation, a docstring, the body or a call elsewhere says of one parameter.

    `spec` is text in the language of `# cgcheck:` comments: `f32[batch dim]`, `i32[n] in 0..k`, `-1`.
    Dimensions of one name are equal across the parameters of one source. A field that the source says
    nothing of is empty.

    `first` and `last` name the first and the last axes where the number of axes is open: each entry is
    a name, a size (`3`), a multiple (`2*d`), a least size (`4+`) or empty.
    """

    source: str  # as a report names it: the docstring `x: (batch, dim)`
    spec: str = ""
    otherwise: str = ""  # another spec that the source gives it: `(B, C) or (B, T, C)`
    rank: int | None = None  # the number of axes, where these have no names
    likely_rank: int | None = (
        None  # the number of axes that its gradient has as the rule returns it
    )
    least_rank: int = 0  # at least so many axes
    domain: str = ""  # as in a comment: `> 0`, `in [0, 1]`, `in simplex`
    for_all: bool = False  # the domain is that of all inputs, so of all that this one holds
    values: tuple[object, ...] = ()  # plain values that it may take, the likeliest first
    kind: Kind = Kind.NOTHING
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    factor: int = 1  # the size of each axis is a multiple of this
    least_of: str = ""  # integers of another parameter: place by place none of these is below it
    distinct: bool = False  # no two of these integers, or pairs of integers, are one
    quantity: bool = False  # these integers are counted with, and are no places
    alike: str = ""  # another parameter, which has as many axes, as long each
    avoids: str = ""  # a whole number, by its parameter, that is none of these integers
    constant: bool = False  # no gradient is meant
    numbers: tuple[str, ...] = ()  # "complex" or "real" as stated, "conjugated" by a body
    declined: bool = False  # the rule gives none
    answered: bool = False  # the rule gives one
    divides: tuple[str, ...] = ()  # dimensions that are multiples of this whole number
    entries: tuple[Entry, ...] = ()  # of a tuple of sizes
