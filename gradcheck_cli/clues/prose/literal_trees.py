"""Dicts written out in words: `{"gate": (D, F), "bias": {"gate": (F,)}}`, and what they may hold besides."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gradcheck_cli.clues.prose.dims import BRACKETS, stated

_Items = dict[str, str]  # by key the spec of what it holds

_KEY = re.compile(r"\s*,?\s*['\"]?(?P<key>[A-Za-z_]\w*)['\"]?\s*:\s*")
_SHAPE = re.compile(rf"(?:(?:float\w*|array|tensor|f32)\s*(?:of shape\s*)?)?(?P<dims>{BRACKETS})")
# `"above": scalar`, and any name where what stands behind the dict says it of all that it holds.
_SCALAR = re.compile(r"(?:an?\s+)?(?:scalar|float|number)s?\b(?!\s*(?:array|tensor|of\b))")
_NAMED = re.compile(r"[A-Za-z_]\w*(?=\s*[,}])")
_ALL_SCALARS = re.compile(
    r"[^{}]*\}\W*(?:(?:all|both|each)\s+)?(?:\w+\s+)?(?:scalars|floats|numbers)\b"
)
_OPEN = re.compile(r"\{(?=\s*['\"]?[A-Za-z_]\w*['\"]?\s*:)")
_OPTIONAL = re.compile(
    r"\b(?:optionally|and maybe|may (?:also )?(?:hold|have|contain))\b[^\"'{(\[.]*"
    r"(?=['\"][A-Za-z_]\w*['\"]\s*:)"
)


def literal_tree(text: str) -> str:
    """The spec of the dict that is written out in a text; nothing where a part of it is not understood."""
    start = _OPEN.search(text)
    if start is None:
        return ""
    read = _dict(text, start.end())
    if read is None:
        return ""
    items, end = read
    return _written({**items, **_besides(text[end:])})


def _dict(text: str, at: int) -> tuple[_Items, int] | None:
    """The items behind an opening brace, and where its closing one ends."""
    items: _Items = {}
    for key, spec, end in _items(text, at):
        if not spec:
            return None
        items[key], at = spec, end
    closing = re.compile(r"\s*,?\s*\}").match(text, at)
    return None if closing is None or not items else (items, closing.end())


def _items(text: str, at: int) -> Iterator[tuple[str, str, int]]:
    """Keys with what they hold, and where that ends; without a spec, one that is not understood."""
    while (match := _KEY.match(text, at)) is not None:
        spec, at = _held(text, match.end())
        yield match["key"], spec, at
        if not spec:
            return


def _held(text: str, at: int) -> tuple[str, int]:
    """A shape, a single number, or another dict."""
    if text[at : at + 1] == "{":
        read = _dict(text, at + 1)
        return ("", at) if read is None else (_written(read[0]), read[1])
    one = _SCALAR.match(text, at)
    if one is None and _ALL_SCALARS.match(text, at):
        one = _NAMED.match(text, at)
    if one is not None:
        return "f32[]", one.end()
    shape = _SHAPE.match(text, at)
    dims = None if shape is None else stated(shape["dims"])
    if shape is None or dims is None or dims.is_open:
        return "", at
    return f"f32[{dims.text}]", shape.end()


def _besides(text: str) -> _Items:
    """What it may hold: `optionally with "bias": {…}`."""
    optional = _OPTIONAL.search(text)
    if optional is None:
        return {}
    return {key: spec for key, spec, _ in _items(text, optional.end()) if spec}


def _written(items: _Items) -> str:
    return f"{{{', '.join(f'{key}: {spec}' for key, spec in items.items())}}}"
