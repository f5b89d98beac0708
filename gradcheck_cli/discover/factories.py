"""Reach what an import alone does not make: attributes, registries, methods, and what factories build."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from gradcheck_cli.discover.guesses import Function, required
from gradcheck_cli.discover.makers import (
    Call,
    Construction,
    Maker,
    call_results,
    calls_of,
    construction,
)
from gradcheck_cli.discover.needs import Need, needs
from gradcheck_cli.subject.results import Found, Missing, Place
from gradcheck_cli.subject.user_code import UserCodeError


def attributes(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Module attributes, private ones too, and what plain containers and classes hold."""
    for name, value in list(vars(module).items()):
        if name.startswith("__"):
            continue
        yield name, value
        yield from _inside(name, value, module.__name__)


def _inside(name: str, value: object, module: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, item in list(value.items()):
            yield f"{name}[{key!r}]", item
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield f"{name}[{i}]", item
    elif inspect.isclass(value) and value.__module__ == module:
        for key, item in list(vars(value).items()):
            if not key.startswith("__"):
                plain = isinstance(item, (staticmethod, classmethod))
                yield f"{name}.{key}", item.__func__ if plain else item


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcome of entering a function: why it failed, which function was made up for it, how to enter it again."""

    reason: str = ""
    invented: str = ""
    maker: Maker | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Entries:
    """All functions that were to be entered: what is missing, and those that were, by their names."""

    missing: list[Missing]
    entered: dict[str, Entry]

    def behind(self, qualname: str) -> Entry:
        """The entry of the factory in which this is defined; one of nothing where there is none."""
        hits = (v for k, v in self.entered.items() if qualname.startswith(f"{k}.<locals>."))
        return next(hits, Entry())


def enter_all(
    module: ModuleType,
    path: str,
    scopes: Sequence[str],
    functions: Sequence[Function],
    recorded: Sequence[Found],
    made: Collection[int],
) -> Entries:
    """Call what makes nested custom gradients, unless the module has: `made` are lines that did.

    What is recorded meanwhile says which function was made up for it.
    """
    missing: list[Missing] = []
    entered: dict[str, Entry] = {}
    for scope in scopes:
        if any(line in _lines(module, scope) for line in made):
            reason = f"the module itself calls `{scope}`, and that did not make it"
            missing.append(Missing(Place(path, 1, scope), reason, True))
            continue
        before = len(recorded)
        entry = enter(module, scope, functions, recorded)
        if entry.reason:
            missing.append(Missing(Place(path, 1, scope), entry.reason, True))
        entered[scope] = entry
        for each in recorded[before:]:
            each.extra |= {"invented": entry.invented, "maker": entry.maker}
    return Entries(missing, entered)


def enter(
    module: ModuleType, scope: str, functions: Sequence[Function], recorded: Sequence[Found] = ()
) -> Entry:
    """Call the function (or method) that makes a nested custom gradient."""
    thing: Any = module
    made: Construction | None = None
    for part in scope.split("."):
        if inspect.isfunction(thing):
            break  # deeper scopes are reached by calling the results
        owner = thing
        thing = getattr(thing, part, None)
        if inspect.isclass(owner) and part == "__init__":
            thing = owner  # who makes an object enters it
            break
        if inspect.isclass(owner) and inspect.isfunction(thing):
            made = construction(owner)
            thing = None if made is None else getattr(made.instance, part)
            break
    if not callable(thing):
        return Entry(f"`{scope}` is not there after the import")
    rules = [name for name, need in needs(thing).items() if need is Need.RULE]
    if rules:
        return Entry(f"`{scope}` takes a rule (`{rules[0]}`), and the module gives it none")
    entry = call_factory(thing, functions, recorded)
    if entry.maker is not None:
        entry = replace(entry, maker=replace(entry.maker, made=made))
    if not entry.reason:
        return entry
    reason = f"calling `{scope}` with guessed arguments failed: {entry.reason}"
    if made is not None:  # what is found in spite of it was made by the constructor
        entry = replace(entry, maker=Maker(made.call))
    return replace(entry, reason=reason)


def _lines(module: ModuleType, scope: str) -> range:
    """The lines of the body of the outermost function of a scope."""
    thing: Any = module
    for part in scope.split("."):
        thing = getattr(thing, part, None)
        if inspect.isfunction(thing):
            break
    try:
        lines, start = inspect.getsourcelines(inspect.unwrap(thing))
        node = ast.parse(textwrap.dedent("".join(lines))).body[0]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return range(0)
    body = getattr(node, "body", None) or [node]
    return range(start + body[0].lineno - 1, start + len(lines))


def call_factory(
    function: Function, functions: Sequence[Function], recorded: Sequence[Found] = ()
) -> Entry:
    """Call a function so that it makes what is nested in it; the reason if nothing worked.

    The hooks record what is made; results that are callable are called in turn.
    """
    reason, made_up = "", ""
    maker: Maker | None = None
    for call in calls_of(function, functions):
        maker = maker or Maker(call)
        before = len(recorded)
        try:
            result = call.again({})
        except UserCodeError as raised:
            error = raised.error
            if len(recorded) > before:  # it made something before it failed
                made_up = made_up or invented(call, functions)
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        call_results(result)
        return Entry(invented=invented(call, functions), maker=Maker(call))
    reason = reason or "it takes no arguments that could be guessed"
    return Entry(reason, invented=made_up, maker=maker)


def invented(call: Call, functions: Sequence[Function]) -> str:
    """The first function among the arguments that nobody but cgcheck chose."""
    for parameter, value in zip(required(call.function) or [], call.arguments, strict=False):
        if any(value is each for each in functions):
            return f"`{getattr(value, '__name__', value)}` for `{parameter.name}`"
    return ""
