"""Docstrings as specs: `x: array of shape (batch, dim)`, in Google's, numpy's and Sphinx's style."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

_DIMS = r"[\[(](?P<dims>[^\[\]()]*)[\])]"
_SHAPED = (
    re.compile(rf"shape\w*\W{{0,4}}(?:(?:of|is|as)\s+)?[`'\"]*{_DIMS}", re.IGNORECASE),
    re.compile(rf"^\W*{_DIMS}[`'\"]*\s*-?\s*(?:shaped|array|tensor|matrix|vector|ndarray|float|int)", re.IGNORECASE),
    re.compile(rf"(?:array|tensor|matrix|vector|ndarray|Array|Tensor)\s*,?\s*[`'\"]*{_DIMS}"),
)  # fmt: skip
_INTEGER = re.compile(r"\b(int|integers?|labels?|indices|index|ids|class(es)?)\b", re.IGNORECASE)
_BOOLEAN = re.compile(r"\b(bool|booleans?|binary mask)\b", re.IGNORECASE)
_COUNT = re.compile(r"^\W*(int|integer)\b(?!\w*\s*(array|tensor))", re.IGNORECASE)
_DIM = re.compile(r"[A-Za-z_]\w{0,23}|\d{1,3}")
_MOST_RANK = 5


def documented(function: Callable[..., Any], names: Sequence[str]) -> dict[str, str]:
    """The spec that the docstring gives for each parameter it describes, as text."""
    text = inspect.getdoc(inspect.unwrap(function)) or ""
    specs = {name: _spec(_described(text, name)) for name in names}
    return {name: spec for name, spec in specs.items() if spec}


def _described(text: str, name: str) -> str:
    """The text behind the parameter's name, with the deeper lines that follow."""
    pattern = rf"(?m)^(?P<indent>[ \t]*)(?::param\s+(?:\w+\s+)?|[-*]\s+)?[`*]*{re.escape(name)}[`*]*\s*(?P<rest>(?:\([^)]*\)\s*)?:.*|\s--?\s.*)$"
    match = re.search(pattern, text)
    if match is None:
        return ""
    lines = [match["rest"].strip()]
    for line in text[match.end() :].splitlines()[1:]:
        if not line.strip() or len(line) - len(line.lstrip()) <= len(match["indent"]):
            break
        lines.append(line.strip())
    return " ".join(lines).strip()


def _spec(described: str) -> str:
    text = described.lstrip(": ")
    for pattern in _SHAPED:
        match = pattern.search(text)
        dims = _dims(match["dims"]) if match else None
        if match is not None and dims is not None:
            before = text[: match.start()] + text[match.end() :]
            return f"{_kind(before)}[{' '.join(dims)}]"
    return "3" if _COUNT.search(text) else ""


def _kind(text: str) -> str:
    if _BOOLEAN.search(text):
        return "bool"
    return "i32" if _INTEGER.search(text) else "f32"


def _dims(text: str) -> list[str] | None:
    """`batch, dim`; what may be any number of dimensions is none of them."""
    tokens = [t.strip(" `'\"*") for t in re.split(r"[,x×\s]+" if "," not in text else ",", text)]
    kept = [t for t in tokens if t and t != "..."]
    if not all(_DIM.fullmatch(t) for t in kept) or len(kept) > _MOST_RANK:
        return None
    return kept
