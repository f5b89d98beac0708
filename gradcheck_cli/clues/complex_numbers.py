"""Arguments that are complex: those that a text says are, and those of which a body takes the conjugate."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.prose.dims import BRACKETS
from gradcheck_cli.clues.prose.passages import passages, plain
from gradcheck_cli.clues.source_text.tree import text_of
from gradcheck_cli.inputs.clue import Clue
from gradcheck_cli.inputs.signature import Parameter

_ANNOTATED = re.compile(r"complex\w*|\bc(?:64|128)?(?=\[)", re.IGNORECASE)
_FLOATS = re.compile(r"\b(?:b?float\w*|real)\b", re.IGNORECASE)
_NO_MORE = r"\b(?=\s*(?:[,.;)]|$))"  # `complex numbers are not supported` says something else
_SAID = re.compile(
    r"\bcomplex(?:64|128)\b|\bc(?:64|128)\[|\bcomplex[- ]valued\b|^\W*(?:an?\s+)?complex\b(?!\s+conj)"
    rf"|^\W*{BRACKETS}\W*complex{_NO_MORE}"
    r"|\bcomplex (?:\w+ )?(?:arrays?|tensors?|numbers?|scalars?|fields?|signals?|vectors?|matri|spectr|samples?"
    r"|amplitudes?|waves?|envelopes?|states?|coefficients?|images?|volumes?|visibilit)",
    re.IGNORECASE,
)
# In a sentence, right behind the name and its shape: `the decay fid (B, T) complex`.
_BEHIND_SHAPE = re.compile(rf"^\s*{BRACKETS}\s*,?\s*complex{_NO_MORE}", re.IGNORECASE)
# Of all that there are: `for two complex impedances`.
_OF_ALL = re.compile(
    r"\b(?:of|for) (?P<number>two|three|four) complex(?:[- ]valued)? (?!roots|zeros|poles|eigen|solutions|conj|parts)\w+s\b",
    re.IGNORECASE,
)
_IN_PARTS = re.compile(r"\breal\b|\bpairs?\b|\bre\b|\bparts?\b", re.IGNORECASE)
_NUMBERS = {"two": 2, "three": 3, "four": 4}
_REAL = re.compile(r"\breal\b(?! or complex)(?<!complex or real)", re.IGNORECASE)
_PARTS = frozenset({"conj", "conjugate", "imag", "mH"})


def clues(function: Callable[..., Any], parameters: Sequence[Parameter]) -> dict[str, list[Clue]]:
    """A clue for each parameter that a text calls complex or real, or whose conjugate the function itself takes.

    A rule may take conjugates by habit, of real numbers alone.
    """
    names = [p.name for p in parameters]
    near = [plain(text.text) for text in texts_about(function) if text.near]
    said = {p.name: [_annotated(p.annotation or "")] for p in parameters}
    for name in taken_apart(function, names):
        said[name].append("conjugated")
    for name in names:
        said[name] += [_said(text, name, names) for text in near]
    told = {name: tuple(word for word in each if word) for name, each in said.items()}
    return {n: [Clue("what is said of its numbers", numbers=w)] for n, w in told.items() if w}


def _annotated(annotation: str) -> str:
    """Of what kind an annotation says that the numbers are; nothing where it does not say."""
    if _FLOATS.search(annotation):
        return "real"
    return "complex" if _ANNOTATED.search(annotation) else ""


def _said(text: str, name: str, names: Sequence[str]) -> str:
    """What an entry about the parameter says, or a sentence that calls it `the complex field`."""
    spoken = passages(text, name, names)
    entries = " ".join(p.after for p in spoken if p.entry)
    if _REAL.search(entries):
        return "real"
    called = rf"\bcomplex(?:[- ]valued)? `*{re.escape(name)}\b"
    behind = any(_BEHIND_SHAPE.match(p.after) for p in spoken if not p.entry)
    told = _SAID.search(entries) or re.search(called, text, re.IGNORECASE)
    return "complex" if told or behind or _are_all(text, names) else ""


def _are_all(text: str, names: Sequence[str]) -> bool:
    """Does a sentence call as many things complex as there are parameters, and not tell of their parts?"""
    said = any(_NUMBERS[m["number"].lower()] == len(names) for m in _OF_ALL.finditer(text))
    return said and _IN_PARTS.search(text) is None


def taken_apart(function: Callable[..., Any], names: Sequence[str]) -> frozenset[str]:
    """The parameters of which a body takes the conjugate or the imaginary part."""
    text = text_of(function)
    statements = () if text is None else text.statements
    nodes = (node for statement in statements for node in ast.walk(statement))
    return frozenset({name for node in nodes for name in _whole(node)}.intersection(names))


def _whole(node: ast.AST) -> Iterator[str]:
    """The name behind `x.conj()`, `x.T.imag` or `jnp.conj(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(attr=part), args=[of]) if part in _PARTS:
            yield from _root(of)
        case ast.Attribute(value=of, attr=part) if part in _PARTS:
            yield from _root(of)


def _root(node: ast.expr) -> Iterator[str]:
    """The name of which this is an attribute or an element."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
