"""Functions beside one that it calls by their names, and what it hands them."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from types import FunctionType

from gradcheck_cli.clues.source_text.statements import nodes_of
from gradcheck_cli.clues.source_text.tree import Text, text_of

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def handed_on(text: Text) -> Iterator[tuple[Text, dict[str, str]]]:
    """The text of each such function, and by its own names those that it is handed: `w` for `_mean(x, w)`."""
    nodes = nodes_of([text])
    inner = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    calls = (n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name))
    for call in calls:
        name = getattr(call.func, "id", "")
        called = None if name in inner else text.surroundings.get(name)
        told = text_of(called) if isinstance(called, FunctionType) else None
        if told is not None and isinstance(called, FunctionType):
            yield told, dict(_handed(call, called))


def _handed(call: ast.Call, called: FunctionType) -> Iterator[tuple[str, str]]:
    """The names that a call hands over as they are, by place up to a star, and by name."""
    parameters = inspect.signature(called).parameters.values()
    places = [p.name for p in parameters if p.kind in _BY_PLACE]
    given = itertools.takewhile(lambda each: not isinstance(each, ast.Starred), call.args)
    named = [(k.arg, k.value) for k in call.keywords if k.arg is not None]
    for own, value in [*zip(places, given, strict=False), *named]:
        if isinstance(value, ast.Name):
            yield own, value.id
