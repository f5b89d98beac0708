"""Rows of numbers that a function has by name: a table "at `EFFICIENCY_SPEEDS`", or `(lies, knots)`, is as long as that row."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import CellType
from typing import Any

from gradcheck_cli.clues.documentation import plain_function, texts_about
from gradcheck_cli.clues.prose.passages import passages, plain
from gradcheck_cli.clues.stated import stated
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.held_shapes import row_length
from gradcheck_cli.inputs.signature import Parameter

_AT = re.compile(
    r"\b(?:at|per|over|along|(?:one for|values? of|each of|for each of))(?:\s+(?:the|each|each of|every|all)\b)?(?:\s+[a-z]+)?\s+`*(?P<row>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]{4,})`*(?![\w(])"
)
_AXIS = re.compile(r"[A-Za-z_]\w*(?=[^\[\]]*\])|(?<=\.\.)[A-Za-z_]\w*")  # and the end of a range
_NUMBER = re.compile(r"\d+")
_LEAST = 3  # what is shorter may be two ends, or a pair


def stated_with_rows(
    function: Callable[..., Any], parameters: Sequence[Parameter], called: Mapping[str, Clue]
) -> dict[str, list[Clue]]:
    """All that is stated of the arguments, and how long those are that go along such a row, in calls as well."""
    told = stated(function, parameters, called)
    along = clues(function, [p.name for p in parameters])
    for name, clue in along.items():
        told.setdefault(name, []).append(clue)
    lengths = {f"d{_NUMBER.findall(clue.spec)[-1]}" for clue in along.values()}
    seen = {name: [_at_length(clue, lengths) for clue in each] for name, each in told.items()}
    return with_lengths(seen, function)


def _at_length(clue: Clue, lengths: Collection[str]) -> Clue:
    """The clue of a call with the axes of these lengths, `d6`, as long as they are there."""

    def size(axis: re.Match[str]) -> str:
        return axis[0][1:] if axis[0] in lengths else axis[0]

    return replace(clue, spec=_AXIS.sub(size, clue.spec)) if lengths else clue


def clues(function: Callable[..., Any], names: Sequence[str]) -> dict[str, Clue]:
    """For each parameter that a text says to be at, or for each of, a row of the module: an array that is as long."""
    rows = _rows(function)
    near = [text for text in texts_about(function) if text.near] if rows else []
    found: dict[str, Clue] = {}
    for text in near:
        for name in (name for name in names if name not in found):
            for passage in passages(plain(text.text), name, names):
                about = passage.after if passage.entry else passage.alone
                match = _AT.search(about)
                if match is not None and match["row"] in rows:
                    source = f"{text.source} `{' '.join(match.group().split())}`"
                    found[name] = Clue(source, f"f32[{rows[match['row']]}]", kind=Kind.ARRAY)
    return found


def with_lengths(
    clues: Mapping[str, Sequence[Clue]], function: Callable[..., Any]
) -> dict[str, list[Clue]]:
    """The clues, each axis that is called as a row that the function closes over, or has by default, as long as that."""
    rows = _rows(function)
    found = {name: list(of_name) for name, of_name in clues.items()}
    if not rows:
        return found
    return {
        name: [
            replace(clue, spec=_AXIS.sub(lambda m: str(rows.get(m[0], m[0])), clue.spec))
            for clue in of_name
        ]
        for name, of_name in found.items()
    }


def _rows(function: Callable[..., Any]) -> dict[str, int]:
    """How long each row of numbers is of the function's module, of what it closes over and of its defaults."""
    inner = plain_function(function)
    code = getattr(inner, "__code__", None)
    named = {n: v for n, v in list(getattr(inner, "__globals__", {}).items()) if n.isupper()}
    free = () if code is None else code.co_freevars
    cells = getattr(inner, "__closure__", None) or ()
    named |= dict(zip(free, map(_content, cells), strict=False))
    defaults = getattr(inner, "__defaults__", None) or ()
    own = () if code is None else code.co_varnames[: code.co_argcount]
    named |= dict(zip(own[len(own) - len(defaults) :], defaults, strict=False))
    lengths = {name: row_length(value) for name, value in named.items()}
    return {name: length for name, length in lengths.items() if length >= _LEAST}


def _content(cell: CellType) -> Any:
    """What a cell holds, if anything yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
