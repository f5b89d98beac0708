"""Dictionaries of arrays whose keys nothing reads: `tables: Dict[str, Array]`, "one per field, each of shape (entries, width)".

A function that goes through all keys takes any. Several such dictionaries of one function have the same keys:
`table[codes[name]] for name, table in tables.items()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.named_rows import stated_with_rows
from gradcheck_cli.clues.prose.passages import passages
from gradcheck_cli.clues.trees import steps_of
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import OMITTED, Parameter

_OF_ARRAYS = re.compile(
    r"(?:[\w.]*\.)?(?:Dict|dict|Mapping|MutableMapping)\[\s*str\s*,\s*(?:[\w.]*\.)?(?:\w*[Aa]rray|\w*Tensor)(?:Like)?\s*\]"
)
_QUOTE = r"['\"][A-Za-z_]\w*['\"]"
_KEYS = re.compile(rf"{_QUOTE}(?:\s*(?:,|,?\s*and|,?\s*or)\s*{_QUOTE})+")  # several in a row
_ANY_KEYS = ("a", "b")
_MOST = 3
_IS_WHOLE = (Kind.ARRAY, Kind.INTEGERS, Kind.BOOLS)


def stated_with_keys(
    function: Callable[..., Any], parameters: Sequence[Parameter], called: Mapping[str, Clue]
) -> dict[str, list[Clue]]:
    """All that is stated of the arguments, and of each array in such a dictionary."""
    return _with_keys(function, parameters, stated_with_rows(function, parameters, called))


def _with_keys(
    function: Callable[..., Any],
    parameters: Sequence[Parameter],
    told: Mapping[str, Sequence[Clue]],
) -> dict[str, list[Clue]]:
    """The clues, with what is said of each array of such a dictionary at its keys."""
    names = [p.name for p in parameters if p.default is OMITTED and _is_unread(p, told)]
    keys = _quoted(function, names) or _ANY_KEYS
    found = {path: list(clues) for path, clues in told.items()}
    for name in names:
        found[name] = [_of_keys(clue, keys) for clue in told.get(name, ())]
        arrays = [c for c in told.get(name, ()) if c.kind in _IS_WHOLE]
        for key in keys:
            found[f"{name}[{key!r}]"] = arrays or [Clue("its annotation", kind=Kind.ARRAY)]
    return found


def _of_keys(clue: Clue, keys: Sequence[str]) -> Clue:
    """What is said of one array, as said of that at each key."""
    if clue.kind not in _IS_WHOLE:
        return clue
    spec = f"{{{', '.join(f'{key}: {clue.spec}' for key in keys)}}}" if clue.spec else ""
    return replace(clue, spec=spec, kind=Kind.TREE)


def _is_unread(parameter: Parameter, told: Mapping[str, Sequence[Clue]]) -> bool:
    """Is it a dictionary of arrays, of which no source names a key?"""
    is_dictionary = _OF_ARRAYS.fullmatch((parameter.annotation or "").strip("'\"")) is not None
    return is_dictionary and not any(steps_of(parameter.name, path) for path in told)


def _quoted(function: Callable[..., Any], names: Sequence[str]) -> tuple[str, ...]:
    """The first words in quotes, several in a row, in what a text says of them."""
    spoken = (
        p.after
        for text in texts_about(function)
        if text.near
        for name in names
        for p in passages(text.text, name, names)
        if p.entry
    )
    row = next((match.group() for said in spoken if (match := _KEYS.search(said))), "")
    return tuple(dict.fromkeys(re.findall(r"['\"](\w+)['\"]", row)))[:_MOST]
