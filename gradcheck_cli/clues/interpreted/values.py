"""Values of expressions that are interpreted: arrays without numbers, functions, classes, objects."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.clues.interpreted.ranges import ANYWHERE, Range

# Numbers, texts, None, tuples, lists and dictionaries stand for themselves; the rest is one of these.
Value = object


class _Unknown:
    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN = _Unknown()  # nothing can be said of it
KEY = type("Key", (), {})()  # of random numbers
A_FLOAT = type("AFloat", (), {})()  # a plain number of which no more is known
FLOAT, INT, BOOL = "f32", "i32", "bool"


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A parameter that nothing fills: where it is a size of an array, that size has its name."""

    name: str
    plain: bool = True  # a number, and no array that nothing is said of


@dataclass(frozen=True, slots=True)
class Sum:
    """A size made of named ones: `4 * n`, `n + m + 1`."""

    terms: tuple[tuple[Symbol, int], ...]  # each with how many times, in the order of their names
    constant: int = 0

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(symbol for symbol, _ in self.terms)


Dim = int | Symbol | Sum | None  # None: a size that cannot be read
Shape = tuple[Dim, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array without numbers: what is in it, its shape, and where its numbers live."""

    kind: str
    shape: Shape
    range: Range = ANYWHERE
    family: str = ""  # as comments name it: `simplex`, `sorted`; `gram` is a a' (not yet definite)


@dataclass(frozen=True, slots=True)
class Library:
    """What a name stands for that is imported from a library: `jax.numpy.zeros`."""

    name: str

    @property
    def last(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class Scope:
    """Names and what they are bound to, with the scope around it."""

    module: Module
    qualname: str = ""
    parent: Scope | None = None
    names: dict[str, Value] = field(default_factory=dict)

    def value(self, name: str) -> Value:
        """What the name is bound to; unknown if nothing has bound it yet."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return UNKNOWN

    def inner(self, name: str) -> str:
        """The qualified name of a function or class that is defined here."""
        return f"{self.qualname}{name}"


@dataclass(slots=True, eq=False)
class Module:
    """A file whose text is interpreted."""

    path: Path
    is_home: bool  # the file whose functions are looked for


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function of the project, with the scope in which it was defined."""

    node: FunctionNode
    qualname: str
    scope: Scope
    defaults: Mapping[str, Value]
    traits: frozenset[str] = frozenset()  # of its decorators: static, property, fixture

    @property
    def parameters(self) -> list[str]:
        """The names that arguments without a name fill."""
        arguments = self.node.args
        return [a.arg for a in (*arguments.posonlyargs, *arguments.args)]


@dataclass(frozen=True, slots=True, eq=False)
class Class:
    """A class of the project: its methods and attributes."""

    qualname: str
    members: Mapping[str, Value]
    bases: Sequence[Value] = ()

    def member(self, name: str) -> Value:
        """What the class or one of its bases has under this name."""
        if name in self.members:
            return self.members[name]
        for base in self.bases:
            found = base.member(name) if isinstance(base, Class) else UNKNOWN
            if found is not UNKNOWN:
                return found
        return UNKNOWN


@dataclass(slots=True, eq=False)
class Instance:
    """An object of a class of the project, with what `__init__` has set."""

    cls: Class
    attributes: dict[str, Value] = field(default_factory=dict)
    is_built: bool = False  # has `build` run, as Keras runs it?


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A method with its object."""

    function: Definition
    owner: Value


@dataclass(frozen=True, slots=True, eq=False)
class Applied:
    """The `apply` of a torch Function: what calls its `forward`."""

    cls: Class


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """What a name of the module is bound to that the text does not define: `relu = _rule(…)`."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Transformed:
    """A function under `grad`, `vmap`, `partial` and their like."""

    how: str
    function: Value
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A layer of a framework: a dense one has sizes, one that changes no shape has none."""

    sizes: tuple[Value, ...] = ()
    stack: tuple[Value, ...] = ()  # layers that follow one another


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of an array, or of what stands for a library's object."""

    owner: Value
    name: str
