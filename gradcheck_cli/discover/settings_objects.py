"""Objects that hold settings, a dataclass or a tuple with names, and what else they may hold."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gradcheck_cli.discover.settings_words import words_of
from gradcheck_cli.inputs.names import means_another, names_another
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

# A field that chooses the derivative, and not the function.
_OF_THE_RULE = re.compile(r"backward|grad|vjp|jvp|estimator|surrogate|derivative|adjoint")
_MOST = 8  # a count beyond that is no number of parts


def flags(value: object) -> Iterator[tuple[str, bool]]:
    """The flags that a settings object holds, but those that change what is meant."""
    yield from ((n, on) for n, on in _held(value) if isinstance(on, bool) and not means_another(n))  # fmt: skip


def words(value: object) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The words that a settings object holds, each with the others that it may be, but those that change what is meant."""
    for name, word in _held(value):
        if type(word) is str and not _OF_THE_RULE.search(name):
            others = words_of(type(value), name, word)
            yield name, word, tuple(w for w in others if not names_another(w))


def holds_settings(value: object) -> bool:
    """Does it hold a flag, a word or a small count that may be another?"""
    return any(True for _ in _changes(value))


def with_settings(value: Any, changed: Mapping[str, object]) -> Any:
    """The settings object with these instead."""
    replaced = dataclasses.replace if dataclasses.is_dataclass(value) else type(value)._replace
    with calling_user_code():
        return replaced(value, **changed)


def otherwise(value: Any) -> Iterator[Fixed]:
    """The object with all of its flags the other way, with each, with one more of each small count, with other words."""
    yield from _with_each(value, _changes(value))


def with_other_words(value: Any) -> Iterator[Fixed]:
    """The object with each other word that one of its fields may be."""
    yield from _with_each(value, _other_words(value))


def _with_each(value: Any, changes: Iterable[Mapping[str, object]]) -> Iterator[Fixed]:
    for changed in changes:
        text = ", ".join(f"{name}={new!r}" for name, new in changed.items())
        try:
            other = with_settings(value, changed)
        except UserCodeError:  # it checks what it is given
            continue
        yield Fixed(other, f"{type(value).__name__}({text})", "with other settings")


def _changes(value: object) -> Iterator[Mapping[str, object]]:
    turned: dict[str, object] = {name: not on for name, on in flags(value)}
    counts: dict[str, object] = {
        n: k + 1 for n, k in _held(value) if type(k) is int and 0 < k <= _MOST
    }
    if len(turned) > 1:
        yield turned
    yield from ({name: new} for name, new in (turned | counts).items())
    yield from _other_words(value)


def _other_words(value: object) -> Iterator[Mapping[str, object]]:
    for name, _, others in words(value):
        yield from ({name: other} for other in others)


def _held(value: object) -> Iterator[tuple[str, object]]:
    """What a settings object holds, by name; nothing where it is none."""
    names: Iterable[str] = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value) if each.init]
    yield from ((name, getattr(value, name, None)) for name in names)
