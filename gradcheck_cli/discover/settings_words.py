"""Words that a field of a settings object may be: those that its own line quotes, and those that its file compares it with."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator

_QUOTED = re.compile(r"(?P<mark>['\"])(?P<word>[A-Za-z][\w-]*)(?P=mark)")
_MOST = 5


def words_of(cls: type, name: str, default: str) -> tuple[str, ...]:
    """The other words of a field, none if there is no word of any; too many are none of a choice."""
    try:
        file = inspect.getsourcefile(cls)
        own = inspect.getsource(cls)
        text = own if file is None else _read(file)
    except (OSError, TypeError):
        return ()
    others = [word for word in _named(own, text, name) if word != default]
    return tuple(others) if len(others) < _MOST else ()


@functools.lru_cache(maxsize=64)
def _named(own: str, text: str, name: str) -> tuple[str, ...]:
    tree = _parsed(text)
    return tuple(dict.fromkeys([*_beside(own, tree, name), *_compared(tree, name)]))


def _parsed(text: str) -> ast.Module:
    """The text; nothing where it is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _read(file: str) -> str:
    with open(file, encoding="utf-8", errors="replace") as opened:
        return opened.read()


def _beside(source: str, tree: ast.Module, name: str) -> Iterator[str]:
    """The words in quotes on the field's own line: a `Literal`, or a comment behind it; and those of its type."""
    line = next((t for t in source.splitlines() if re.match(rf"\s*{re.escape(name)}\s*:", t)), "")
    yield from (match["word"] for match in _QUOTED.finditer(line))
    kind = re.match(r"[^:]*:\s*(?P<type>[A-Za-z_]\w*)\s*(?:=|#|$)", line)
    if kind is not None:
        yield from _of_type(tree, kind["type"])


def _of_type(tree: ast.Module, name: str) -> Iterator[str]:
    """The words of a type that the file gives a name: `Reference = Literal["hum", "mean"]`."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=given)], value=ast.Subscript(value=kind, slice=of)
            ):
                if given == name and ast.unparse(kind).rpartition(".")[2] == "Literal":
                    words = (n.value for n in ast.walk(of) if isinstance(n, ast.Constant))
                    yield from (word for word in words if isinstance(word, str))


def _compared(tree: ast.Module, name: str) -> Iterator[str]:
    """The words that a file compares a name or a field of this name with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and _is_called(node.left, name):
            for part in node.comparators:
                each = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
                words = (e.value for e in each if isinstance(e, ast.Constant))
                yield from (word for word in words if isinstance(word, str))


def _is_called(node: ast.expr, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )
