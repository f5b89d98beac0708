"""Rows of words for a parameter that holds several: `book: Sequence[str]`, of which the text tells `"draw"` and `"stir"` apart."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator
from typing import Any

_HOLDS_WORDS = re.compile(
    r"(?:\w+\.)*(?P<kind>[Tt]uple|[Ll]ist|Sequence|Iterable|Collection)\[\s*(?:\w+\.)*(?:str|Literal\[(?P<words>[^\[\]]*)\])\s*(?:,\s*\.\.\.\s*)?\]"
)
_OPTIONAL = re.compile(r"(?:typing\.)?Optional\[(?P<inner>.*)\]")
_QUOTED = re.compile(r"(?<!\w)(['\"])(?P<word>[A-Za-z_][\w-]*)\1(?!\w)")
# From the parameter's name up to the next entry or a line without text.
_ENTRY = r"^[ \t]*{name}\b[^:\n]*:(?P<said>.*?)(?=^[ \t]*\w+[^:\n]*:\s|^\s*$|\Z)"
_MOST = 4  # words of one row


def word_rows(parameter: inspect.Parameter, function: Callable[..., Any]) -> list[Any]:
    """A row with each of the words, the first of them twice; none where nothing holds words, or nobody names two."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else str(annotation)
    optional = _OPTIONAL.fullmatch(text)
    holds = _HOLDS_WORDS.fullmatch(optional["inner"] if optional else text.removesuffix(" | None"))
    if holds is None:
        return []
    words = (
        _quoted(holds["words"] or "")
        or _told(parameter.name, function)
        or _asked(parameter.name, function)
    )
    if len(words) < 2:
        return []
    row = [*words[:_MOST], words[0]]
    return [tuple(row) if holds["kind"].lower() == "tuple" else row]


def _quoted(text: str) -> list[str]:
    return list(dict.fromkeys(match["word"] for match in _QUOTED.finditer(text)))


def _told(name: str, function: Callable[..., Any]) -> list[str]:
    """The words in quotes in the parameter's entry of the docstring."""
    entry = re.search(
        _ENTRY.format(name=re.escape(name)),
        inspect.getdoc(function) or "",
        re.MULTILINE | re.DOTALL,
    )
    return [] if entry is None else _quoted(entry["said"])


def _asked(name: str, function: Callable[..., Any]) -> list[str]:
    """The words with which the text compares each of the parameter's."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return []
    each = {name, *(n for node in ast.walk(tree) for n in _each(node, name))}
    return list(dict.fromkeys(word for node in ast.walk(tree) for word in _compared(node, each)))


def _each(node: ast.AST, name: str) -> Iterator[str]:
    """The names that stand for one of the parameter's words: `for t, event in enumerate(book)`, `first, second = book`."""
    match node:
        case ast.For(target=target, iter=held) | ast.comprehension(target=target, iter=held):
            pass
        case ast.Assign(targets=[target], value=held):
            pass
        case _:
            return
    if name in _named(held):
        yield from _named(target)


def _compared(node: ast.AST, each: Collection[str]) -> Iterator[str]:
    """The words that are compared with one of these."""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        if any(name in each for side in sides for name in _named(side)):
            parts = (n for side in sides for n in ast.walk(side))
            yield from (
                n.value for n in parts if isinstance(n, ast.Constant) and type(n.value) is str
            )


def _named(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
