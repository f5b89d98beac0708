"""Which of two arguments is the larger one wherever somebody means the call, as texts and checks say.

Texts: the chain `ies > iis > 0`, `with lo < hi`, `must be larger than inner`. Checks: `assert a < b`, and what raises. A comparison alone is
no promise: `x < knee` may be a branch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.prose.chains import compared_in
from gradcheck_cli.clues.source_text.comparisons import ends_in_raise
from gradcheck_cli.clues.source_text.tree import text_of
from gradcheck_cli.inputs.signature import last_name

Order = tuple[str, str]  # the lesser one and the larger one

_NAME = r"`*([^\W\d]\w*)`*"
_ALONE = r"`*(?![\w`])(?!\s*[-+*/(\[]|\.\w)"  # no part of a larger expression
_FIRM = r"\b(?:must|has to|have to|is always|are always|assumed|assumes|assuming|requires?|required|needs?|expects?|ensure[sd]?|with)\b"
_MUST_BE = r"(?:must|has to|have to|should|is always|are always)\s+(?:be\s+)?(?:strictly\s+)?"
_LESS, _MORE = r"(?:less|smaller|lower|below)(?:\s+than)?", r"(?:larger|greater|more|higher|above|exceeds?)(?:\s+than)?"  # fmt: skip
_SIGNS = re.compile(
    rf"{_FIRM}[^.;:]{{0,40}}?(?<![\w.*/+-]){_NAME}\s*(?P<sign>[<>]=?|≤|≥)\s*{_NAME}{_ALONE}"
)
_WORDS = re.compile(
    rf"(?<![\w.]){_NAME}\s+{_MUST_BE}(?:(?P<less>{_LESS})|{_MORE})\s+{_NAME}{_ALONE}"
)
_ENTRY = re.compile(
    rf"^\s*{_NAME}\s*(?:\([^()]*\))?\s*:[^\n]*?[,(]\s*(?:strictly\s+)?(?:(?P<less>{_LESS}|<=?|≤)|(?:{_MORE}|>=?|≥))\s+(?:the\s+)?{_NAME}{_ALONE}",
    re.MULTILINE,
)
_LOWER_FIRST, _UPPER_FIRST = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
_WHOLES = frozenset({"all", "any"})  # what says of an array what holds for its entries


def orders(
    functions: Sequence[Callable[..., Any]], paths: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The arguments that have others below them, each with these."""
    by_name = {last_name(path): path for path in paths}
    found: dict[str, tuple[str, ...]] = {}
    for lesser, larger in dict.fromkeys(_said(functions, by_name)):
        is_known = lesser in by_name and larger in by_name and lesser != larger
        if is_known and by_name[larger] not in found.get(by_name[lesser], ()):
            path = by_name[larger]
            found[path] = (*found.get(path, ()), by_name[lesser])
    return found


def _said(functions: Sequence[Callable[..., Any]], names: Collection[str]) -> Iterator[Order]:
    for function in functions:
        for text in texts_about(function):
            if text.near:
                yield from _in_prose(text.text, names)
        written = text_of(function)
        for statement in () if written is None else written.statements:
            yield from _in_checks(statement)


def _in_prose(text: str, names: Collection[str]) -> Iterator[Order]:
    yield from compared_in(text, names)
    for match in _SIGNS.finditer(text):
        yield _order(match[1], match[3], is_less=match["sign"][0] in "<≤")
    for form in (_WORDS, _ENTRY):
        for match in form.finditer(text):
            yield _order(match[1], match[3], is_less=match["less"] is not None)


def _order(first: str, second: str, *, is_less: bool) -> Order:
    return (first, second) if is_less else (second, first)


def _in_checks(statement: ast.stmt) -> Iterator[Order]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Assert):
            yield from _required(node.test, truth=True)
        elif isinstance(node, ast.If) and ends_in_raise(node.body):
            yield from _required(node.test, truth=False)


def _required(test: ast.expr, *, truth: bool) -> Iterator[Order]:
    """What is so wherever the test has this truth; of an array, wherever all entries or any have it."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _required(test.operand, truth=not truth)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) is truth:
        for part in test.values:
            yield from _required(part, truth=truth)
    elif isinstance(test, ast.Call):
        yield from _of_whole(test, truth=truth)
    elif isinstance(test, ast.Compare) and (truth or len(test.ops) == 1):
        sides = (test.left, *test.comparators)
        for left, sign, right in zip(sides, test.ops, sides[1:], strict=False):
            if isinstance(left, ast.Name) and isinstance(right, ast.Name):
                is_less = isinstance(sign, _LOWER_FIRST)
                if is_less or isinstance(sign, _UPPER_FIRST):
                    yield _order(left.id, right.id, is_less=is_less is truth)


def _of_whole(call: ast.Call, *, truth: bool) -> Iterator[Order]:
    """`bool(jnp.all(lo < hi))`, `(lo >= hi).any()`, `torch.any(lo >= hi)`."""
    name = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
    if name == "bool" and call.args:
        yield from _required(call.args[0], truth=truth)
    elif name in _WHOLES and (name == "all") is truth:
        inner = call.args[0] if call.args else getattr(call.func, "value", None)
        if isinstance(inner, ast.Compare):
            yield from _required(inner, truth=truth)
