"""Inputs as specifications: what a call is made of before there are numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.project.input_specs import Spec

Array = np.ndarray[Any, Any]


class _Omitted:
    """An argument that is left out: its default stands."""

    def __repr__(self) -> str:
        return "<default>"


OMITTED = _Omitted()

# The source of what no source says.
GUESS = "a guess that function and rule take"


@dataclass(frozen=True, slots=True)
class Leaf:
    """One differentiable array of floats, or of complex numbers. `centre` is a default that values stay around too.

    `recorded` are its numbers at a real call: they stay with it, whatever signature it ends in.
    `axes` are names for its axes, where the shapes of all arrays were solved together.
    """

    path: str
    shape: tuple[int, ...]
    source: str
    centre: float | None = None
    domain: Domain | None = None  # where its values live; none: everywhere
    recorded: Array | None = field(default=None, compare=False, repr=False)
    axes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    is_complex: bool = False

    @property
    def is_bounded(self) -> bool:
        """Does somebody say which numbers it holds?"""
        return self.domain is not None and self.domain.is_bounded

    @property
    def is_stated(self) -> bool:
        """Does somebody say which numbers it holds, and not only what it is called?"""
        return self.domain is not None and self.domain.is_stated

    def within(self, rows: Array, fmt: Format) -> Array:
        """Rows of values (the first axis counts them), each moved to where the argument lives."""
        return rows if self.domain is None else self.domain.into(rows, fmt)

    @property
    def is_discrete(self) -> bool:
        """Are its floats single numbers, such as 0 and 1, with none between them?"""
        return self.domain is not None and self.domain.is_discrete

    @property
    def parts(self) -> tuple[Leaf, ...]:
        """The arrays of floats that it consists of: itself, or a real and an imaginary part."""
        if not self.is_complex:
            return (self,)
        numbers = self.recorded
        halves = {
            "real": None if numbers is None else numbers.real,
            "imag": None if numbers is None else numbers.imag,
        }
        return tuple(
            replace(self, path=f"{self.path}.{name}", recorded=half, is_complex=False)
            for name, half in halves.items()
        )

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument that stays as it is: an integer array, a key, a flag, a callable."""

    value: Any
    text: str
    source: str
    invented: bool = False  # a function that nobody but cgcheck chose
    axes: tuple[str, ...] = field(default=(), compare=False, repr=False)  # of an array
    path: str = field(default="", compare=False, repr=False)  # in a tree, where not the argument's

    @property
    def is_guess(self) -> bool:
        return self.source == GUESS


@dataclass(frozen=True, slots=True)
class Built:
    """An object that is built from its parts, each an argument of its own."""

    name: str
    make: Callable[[list[Any]], Any]
    parts: tuple[Any, ...]
    fields: tuple[str, ...]  # the names of the parts


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the function under check."""

    name: str
    index: int
    differentiable: bool
    keyword_only: bool
    default: Any = OMITTED
    annotation: str | None = None
    variadic: bool = False  # it stands for any number of arguments


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call the function: an entry for each parameter, nested or not."""

    arguments: tuple[tuple[str, Any], ...]
    keywords: frozenset[str] = field(default_factory=frozenset)

    @property
    def leaves(self) -> tuple[Leaf, ...]:
        """The arrays of floats by which it is judged: of a complex argument its two parts."""
        return tuple(part for leaf in self.whole_leaves for part in leaf.parts)

    @property
    def is_empty(self) -> bool:
        """Has an array of it no element? What a function makes of that, its rule need not."""
        return any(leaf.size == 0 for leaf in self.leaves)

    @property
    def whole_leaves(self) -> tuple[Leaf, ...]:
        """The differentiable arrays as the function takes them."""
        return tuple(leaf for _, value in self.arguments for leaf in _leaves(value))

    @property
    def arrays(self) -> tuple[str, ...]:
        """The parameters that are an array of floats each, not nested."""
        return tuple(name for name, value in self.arguments if isinstance(value, Leaf))

    def held(self, defaults: Mapping[str, object]) -> dict[str, object]:
        """What each argument is that stays as it is; its default where it is left out."""
        found: dict[str, object] = {}
        for name, given in self.arguments:
            if given is OMITTED:
                found[name] = defaults.get(name)
            elif isinstance(given, Fixed):
                found[name] = given.value
        return found

    def changed(self, change: Callable[[Any], Any]) -> Signature:
        """The call with each part of its arguments changed."""
        arguments = tuple((name, changed(value, change)) for name, value in self.arguments)
        return Signature(arguments, self.keywords)

    def with_argument(self, name: str, value: Any) -> Signature:
        """The call with another value for one argument."""
        arguments = tuple((n, value if n == name else v) for n, v in self.arguments)
        return Signature(arguments, self.keywords)

    def describe(self) -> str:
        """The signature as text: `x: float[3 4], axis=-1`."""
        return ", ".join(_describe(name, value) for name, value in self.arguments)


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints about a function besides its parameters: from its text, its surroundings, the user."""

    keys: dict[str, list[str]]
    unpacked: dict[str, int]
    functions: list[tuple[str, Callable[..., Any]]]
    # For a parameter that is called, a function of the module.
    callables: dict[str, Fixed] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)  # dimensions of arrays that it refers to
    specs: dict[str, Spec] = field(default_factory=dict)  # what the user specifies
    domains: dict[str, Domain] = field(
        default_factory=dict
    )  # where the user declares that arguments live
    calls: list[Signature] = field(default_factory=list)  # as it was really called
    guesses: dict[str, tuple[Spec, str]] = field(default_factory=dict)  # from its text, with where
    clues: dict[str, list[Clue]] = field(default_factory=dict)  # the strongest source first
    classes: dict[str, type] = field(default_factory=dict)  # of arguments that are objects
    instances: dict[str, Any] = field(default_factory=dict)  # such objects that the module holds
    # What is read of arguments that are objects of no known class.
    attributes: dict[str, frozenset[str]] = field(default_factory=dict)
    objects_are_held: bool = False  # the framework does not differentiate what objects hold
    windows: Sequence[tuple[str, str]] = ()  # what slides: how long it is, and how far it goes
    halves: bool = False  # its text takes half of an axis
    loops: bool = False  # its text goes along an axis step by step
    pieces: Sequence[int] = ()  # how long those are that its text takes one after the other
    counts_axes: frozenset[str] = (
        frozenset()
    )  # arrays of which its text counts the axes, or takes the last after dots
    obstacle: str = ""  # why it cannot be called at all, whatever the inputs
    left_out: frozenset[str] = frozenset()  # integers whose places in a table do not count
    below_zero: frozenset[str] = frozenset()  # tables of which the text asks for entries below zero
    outside: frozenset[str] = frozenset()  # tables that may hold integers which name no place
    paired: frozenset[str] = frozenset()  # tables whose rows the text compares with each other
    complex_numbers: frozenset[str] = frozenset()  # arguments that a source says are complex
    cut_off_by: frozenset[str] = frozenset()  # at which the function cuts something off
    real_numbers: frozenset[str] = frozenset()  # arguments that a source says are real
    maybe_complex: frozenset[str] = frozenset()  # arguments of which the body takes such parts
    constants: tuple[str, ...] = ()  # which its text takes as constants
    learned: frozenset[str] = frozenset()  # which it differentiates, or says to be learned
    deviates: str = ""  # the word by which its text says that its derivative is meant to be another
    on_purpose: str = ""  # the words by which it says so outright
    held: frozenset[str] = frozenset()  # the arguments of which these say that they are constants
    straight_through: bool = (
        False  # it says that the cotangent passes as if a step were the identity
    )
    cast: frozenset[str] = frozenset()  # what a text turns into the type of another argument
    empty_rows: bool = (
        False  # a text speaks of rows of a mask that are empty, or does something about them
    )
    speaks_beyond: bool = False  # a text speaks of negative numbers, or of shares above one
    distinct: bool = False  # a text promises that no two places of a table are one
    single_elsewhere: frozenset[str] = frozenset()  # single numbers, by other texts and examples
    spec_source: str = ""  # where the specs stand
    integers: frozenset[str] = frozenset()  # of which whole numbers are tried, not floats
    make_key: Callable[[], Any] | None = None  # none: the framework has no keys


def root(path: str) -> str:
    """The parameter to which a path belongs: `params` of `params['w']` and of `params.w`."""
    return re.split(r"[.\[]", path)[0]


def last_name(path: str) -> str:
    """`log_sigma` of `params.log_sigma` and of `params['log_sigma']`."""
    return path.replace("['", ".").replace("']", "").rpartition(".")[2]


def filled(
    value: Any,
    supply: Iterator[Any],
    fixed: Callable[[Any], Any] = lambda v: v,
    paired: Callable[[Any, Any], Any] = lambda real, imag: real + 1j * imag,
) -> Any:
    """An argument with its leaves taken from `supply` and its fixed parts turned by `fixed`.

    `paired` makes complex numbers of their two parts.
    """
    if isinstance(value, Leaf):
        return paired(next(supply), next(supply)) if value.is_complex else next(supply)
    if isinstance(value, Fixed):
        return fixed(value.value)
    if isinstance(value, Built):
        return value.make([filled(part, supply, fixed, paired) for part in value.parts])
    if isinstance(value, dict):
        return {key: filled(value[key], supply, fixed, paired) for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return type(value)(filled(item, supply, fixed, paired) for item in value)
    return value


def tables(signature: Signature) -> Iterator[tuple[str, Array]]:
    """Arguments that are arrays of integers or flags, and stay as they are."""
    for name, value in signature.arguments:
        dtype = getattr(value.value, "dtype", None) if isinstance(value, Fixed) else None
        if getattr(dtype, "kind", "") in ("i", "u", "b") and value.value.size > 1:
            yield name, np.asarray(value.value)


def changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with each of its parts changed: leaves, fixed values, all that holds no parts."""
    if isinstance(value, Built):
        return replace(value, parts=tuple(changed(part, change) for part in value.parts))
    if isinstance(value, dict):
        return {key: changed(value[key], change) for key in sorted(value)}
    if type(value) in (tuple, list):
        return type(value)(changed(item, change) for item in value)
    return change(value)


def _leaves(value: Any) -> Iterator[Leaf]:
    if isinstance(value, Leaf):
        yield value
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    elif isinstance(value, (tuple, list, Built)):
        for item in value.parts if isinstance(value, Built) else value:
            yield from _leaves(item)


def _describe(name: str, value: Any) -> str:
    if isinstance(value, Leaf):
        kind = "complex" if value.is_complex else "float"
        return f"{name}: {kind}[{' '.join(map(str, value.shape))}]"
    if isinstance(value, Fixed):
        return f"{name}={value.text}"
    if isinstance(value, Built):
        parts = zip(value.fields, value.parts, strict=True)
        return f"{name}: {value.name}({', '.join(_describe(field, p) for field, p in parts)})"
    if isinstance(value, (tuple, list, dict)):
        return f"{name}: {type(value).__name__}"
    return f"{name}={value!r}"
