"""Values that a reader of source text follows: parameters, their shapes and dimensions, constants.

None stands for a value that is not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Part:
    """A parameter, or a part of one: `x`, `params['w']`, `pair[0]`."""

    path: str
    dropped: int = 0  # leading axes that an index took away
    itself: bool = True  # false: another array, of its shape
    bounded: bool = False  # that has its elements, but for those beyond a bound
    spare: str = ""  # the parameter that stands in it for none: `where(alive, ids, count)`


@dataclass(frozen=True, slots=True)
class Member:
    """One of so many things, or more, that a parameter holds: a row of numbers, a tuple of sizes."""

    path: str
    count: int
    place: int = 0  # among these
    name: str = ""  # as the text unpacks it


@dataclass(frozen=True, slots=True)
class Dim:
    """The size of one axis of a part."""

    path: str
    axis: int


@dataclass(frozen=True, slots=True)
class Rank:
    """The number of axes of a part."""

    part: Part


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of the axes of a part, from one axis to another."""

    part: Part
    start: int = 0
    stop: int | None = None

    @property
    def whole(self) -> bool:
        return self.start == 0 and self.stop is None


@dataclass(frozen=True, slots=True)
class Rest:
    """A remainder: a dimension by a whole number, or by another dimension."""

    dim: Dim
    divisor: Part | Member | Dim


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a word, a flag, None or `...`, as the text has it."""

    value: object


@dataclass(frozen=True, slots=True)
class Many:
    """A tuple or a list."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Keyed:
    """A dictionary that the text writes down."""

    items: tuple[tuple[object, Value], ...]


@dataclass(frozen=True, slots=True)
class Fresh:
    """An array that the function makes, by its sizes."""

    sizes: tuple[Value, ...]
    counts: bool = False  # it holds 0, 1, 2 and so on
    along: Value = None  # as far as this goes


@dataclass(frozen=True, slots=True)
class Taken:
    """Rows of a table, as integers of so many axes choose them: `table[ids]`."""

    table: Part
    ids: str
    rank: int


@dataclass(frozen=True, slots=True)
class At:
    """`x.at`: what is indexed next is updated."""

    of: Value


@dataclass(frozen=True, slots=True)
class Narrow:
    """An array that broadcasts against a part: its mean, with the axes kept."""

    path: str
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Content:
    """The elements of a parameter in another shape: `labels[:, None]`."""

    path: str
    added: int | None = None  # so many axes of length one and nothing else; None: something else


@dataclass(frozen=True, slots=True)
class Turned:
    """A part with its last two axes exchanged."""

    part: Part


@dataclass(frozen=True, slots=True)
class Computed:
    """An array that the text computes, by its last axes; None stands for a size that is not followed."""

    axes: tuple[Dim | None, ...]
    whole: bool = False  # these are all its axes

    def axis(self, number: int) -> Dim | None:
        """The size of this axis."""
        if number < -len(self.axes) or number >= (len(self.axes) if self.whole else 0):
            return None
        return self.axes[number]


@dataclass(frozen=True, slots=True)
class Pieces:
    """The pieces into which an array is cut along an axis: each has one entry of it, or is of one size."""

    axis: Dim
    size: Dim | None = None


@dataclass(frozen=True, slots=True)
class Times:
    """So many times a dimension."""

    count: int
    dim: Dim


@dataclass(frozen=True, slots=True)
class Span:
    """A slice from one number to another."""

    start: Value
    stop: Value


@dataclass(frozen=True, slots=True)
class Extents:
    """The sizes of the axes of an array that the text computes."""

    of: Computed


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single number that is not followed further; of a loop it goes from 0 to below a size."""

    below: Value = None


@dataclass(frozen=True, slots=True, eq=False)
class Local:
    """A function that is defined inside of the text, with what the names around it stand for."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    names: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Global:
    """A function of the same module."""

    function: Callable[..., object]


@dataclass(frozen=True, slots=True)
class Either:
    """One of two functions of a library, as the first of them: `jnp.mean if mean else jnp.sum`."""

    name: str
    library: str


@dataclass(frozen=True, slots=True)
class Mapped:
    """`jax.vmap(f)`: the function over a leading axis."""

    function: Local | Global | None


@dataclass(frozen=True, slots=True)
class Context:
    """The object on which a rule keeps what it needs later."""


Value = (
    Part | Member | Dim | Rank | Shape | Rest | Taken | Constant | Many | Fresh | At | Narrow | Content | Turned
    | Keyed | Computed | Pieces | Times | Span | Extents | Scalar | Local | Global | Either | Mapped | Context | None
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a library's function or of a method: the array of a method is the first operand."""

    name: str
    library: str  # as it stands in the text: `jnp.linalg`; empty for a method
    operands: tuple[Value, ...]
    keywords: dict[str, Value] = field(default_factory=dict)
    node: ast.Call | None = None
    method: bool = False

    def argument(self, place: int, *names: str) -> Value:
        """The operand at this place, or by one of its names."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.operands[place] if 0 <= place < len(self.operands) else None


def itself(value: Value) -> Part | None:
    """The value, if it is a parameter (or a part of one) as it was passed."""
    return value if isinstance(value, Part) and value.itself and not value.dropped else None


def elements(value: Value) -> str:
    """The path whose elements the value has, in whatever shape; empty if it has none's."""
    if isinstance(value, Content) or (isinstance(value, Part) and (value.itself or value.bounded)):
        return value.path
    return ""


def in_another_shape(made: Fresh) -> Fresh | None:
    """Of an array that is made, that it holds 0, 1, 2 and so on."""
    return replace(made, sizes=()) if made.counts else None


def reshaped(value: Value) -> Value:
    """The elements of the value in another shape."""
    if isinstance(value, Fresh):
        return in_another_shape(value)
    path = elements(value)
    return Content(path) if path else None


def widened(value: Value, count: int) -> Value:
    """The value with so many new axes."""
    if isinstance(value, Fresh):
        return in_another_shape(value)
    if isinstance(value, Content) and value.added is not None:
        return Content(value.path, value.added + count)
    part = itself(value)
    return reshaped(value) if part is None else Content(part.path, count)


def whole(value: Value) -> int | None:
    """The value, if it is a whole number in the text."""
    if isinstance(value, Constant) and type(value.value) is int:
        return value.value
    return None


def wholes(value: Value) -> list[int] | None:
    """The whole numbers of a tuple, or of a single one."""
    items = value.items if isinstance(value, Many) else (value,)
    numbers = [whole(item) for item in items]
    return None if None in numbers else [n for n in numbers if n is not None]


def word(value: Value) -> str | None:
    """The value, if it is a word in the text."""
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def element(value: Value) -> Value:
    """One element along the leading axis."""
    if isinstance(value, Part):
        return Part(value.path, value.dropped + 1, value.itself)
    if isinstance(value, Many):
        return Many(tuple(element(item) for item in value.items))
    return None


def listed(value: Value) -> tuple[Value, ...]:
    """The items of a tuple or a list; nothing of anything else."""
    return value.items if isinstance(value, Many) else ()
