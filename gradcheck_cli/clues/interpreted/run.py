"""One run over the text of a file and of those that use it: calls that were met, and what limits it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gradcheck_cli.clues.interpreted.values import Array, Library, Module, Scope, Value

HOME_STEPS, OTHER_STEPS = 25_000, 50_000  # a step is a node: about ten microseconds
MOST_DEPTH = 5
REST = object()  # stands last among arguments: whatever follows cannot be read


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call of something that the home file defines, with what its arguments are."""

    name: str  # as reports call it
    parameters: Sequence[str] | None  # that arguments fill by their place, where the text says them
    args: Sequence[Value]
    kwargs: Mapping[str, Value]
    module: Module
    node: ast.Call


@dataclass(frozen=True, slots=True)
class MadeDictionary:
    """What a function of the home file gives back, where that is a dictionary."""

    maker: str
    value: Mapping[Value, Value]


Invoke = Callable[["Run", Value, Sequence[Value], Mapping[str, Value]], Value]
Imported = Callable[[str, int, str | None], Value]  # module, level, name: what an import gives


@dataclass(slots=True)
class Run:
    """The state of one run. A doubtful branch may run or not; in a muted one calls do not count."""

    invoke: Invoke
    imported: Imported
    limit: int  # steps that it may take
    calls: list[SeenCall] = field(default_factory=list)
    made: list[MadeDictionary] = field(default_factory=list)
    entered: set[ast.AST] = field(default_factory=set)  # functions that were called
    place: tuple[Module, ast.Call] | None = None
    steps: int = 0
    depth: int = 0
    doubtful: int = 0
    muted: int = 0

    @property
    def is_over(self) -> bool:
        return self.steps > self.limit

    def record(
        self,
        name: str,
        parameters: Sequence[str] | None,
        args: Sequence[Value],
        kwargs: Mapping[str, Value],
    ) -> None:
        """Note a call at the place that is interpreted."""
        if self.place is not None and not self.muted and not self.is_over:
            self.calls.append(SeenCall(name, parameters, args, kwargs, *self.place))


def made_by(qualname: str) -> str:
    """The name under which objects of a class are noted; their fields are the arguments."""
    return f"{qualname}()"


def library_name(module: str, name: str | None) -> Library:
    """What an import of something that is not the project's binds."""
    return Library(f"{module}.{name}" if name else module)


def forget(scope: Scope, value: Value, instead: Value) -> None:
    """Bind every name of this value to another one: it has changed where it stands."""
    where: Scope | None = scope
    while where is not None:
        for name, bound in where.names.items():
            if bound is value:
                where.names[name] = instead
        where = where.parent


def anything(array: Array) -> Array:
    """The array after its numbers were replaced."""
    return Array(array.kind, array.shape)
