"""Reach what an import alone does not make: attributes, registries, methods, and what factories build."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from gradcheck_cli.discover.guesses import Function, guesses
from gradcheck_cli.subject.results import Missing, Place
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_MOST_CALLS = 40
_DEPTH = 2


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


def enter(
    module: ModuleType, path: str, scope: str, functions: Sequence[Function]
) -> Missing | None:
    """Call the function (or method) that makes a nested custom gradient."""
    thing: Any = module
    for part in scope.split("."):
        if inspect.isfunction(thing):
            break  # deeper scopes are reached by calling the results
        owner = thing
        thing = getattr(thing, part, None)
        if inspect.isclass(owner) and inspect.isfunction(thing):
            instance = instance_of(owner)
            thing = None if instance is None else getattr(instance, part)
            break
    if not callable(thing):
        return Missing(Place(path, 1, scope), f"`{scope}` is not there after the import", True)
    reason = call_factory(thing, functions)
    if reason is None:
        return None
    return Missing(
        Place(path, 1, scope), f"calling `{scope}` with guessed arguments failed: {reason}", True
    )


def call_factory(function: Function, functions: Sequence[Function]) -> str | None:
    """Call a function so that it makes what is nested in it; the reason if nothing worked.

    The hooks record what is made; results that are callable are called in turn.
    """
    reason: str | None = None
    for count, arguments in enumerate(guesses(function, functions)):
        if count >= _MOST_CALLS:
            break
        try:
            with calling_user_code():
                result = function(*arguments)
        except UserCodeError as raised:
            error = raised.error
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            continue
        _call_results(result, _DEPTH)
        return None
    return reason or "it takes no arguments that could be guessed"


def _call_results(result: object, depth: int) -> None:
    if depth == 0:
        return
    for item in result if isinstance(result, (tuple, list)) else (result,):
        if inspect.isfunction(item):
            for arguments in itertools.islice(guesses(item), 4):
                try:
                    with calling_user_code():
                        inner = item(*arguments)
                except UserCodeError:
                    continue
                _call_results(inner, depth - 1)
                break


def instance_of(cls: type) -> object | None:
    """An instance of a class, if small numbers satisfy its constructor."""
    for arguments in itertools.islice(guesses(cls), _MOST_CALLS):
        try:
            with calling_user_code():
                instance: object = cls(*arguments)
        except UserCodeError:
            continue
        return instance
    return None
