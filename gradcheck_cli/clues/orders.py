"""Which of two arguments is the larger one wherever somebody means the call, as texts and checks say.

Texts: the chain `0 < lo < hi`, `lo < hi is assumed`, `hi must be larger than lo`, an entry `hi: the upper end, > lo`. Checks at the
top of a function: `assert a < b`, and what raises. A comparison alone is no promise: `x < knee` may be a branch, and
`lo < x < hi` the place where a slope is 1.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from gradcheck_cli.clues.documentation import texts_about
from gradcheck_cli.clues.prose.chains import ordered_in
from gradcheck_cli.clues.source_text.comparisons import ends_in_raise
from gradcheck_cli.clues.source_text.tree import text_of
from gradcheck_cli.inputs.signature import last_name

Order = tuple[str, str]  # the lesser one and the larger one

_NAME = r"`*(?P<{0}>[^\W\d]\w*)`*"
_BEGINS = r"(?:^|(?<=[.;])\s|\band\s)\s*(?:the\s+)?"  # a sentence or an entry of its own
_ENDS = r"(?=\s*(?:[,;)]|\.(?!\w)|$))"
_MUST_BE = r"(?:must|has to|have to|should|is always|are always)\s+(?:be\s+)?(?:strictly\s+)?"
_LESS, _MORE = r"(?:less|smaller|lower|below)(?:\s+than)?", r"(?:larger|greater|higher|above)(?:\s+than)?"  # fmt: skip
_SIGNS = re.compile(
    rf"(?<!not )(?<!n't )\b(?:requires|assumes|assuming|(?:required|assumed|ensured)\s+that|must have)\s+(?:that\s+)?"
    rf"{_NAME.format('one')}\s*(?P<sign>[<>]=?|≤|≥)\s*{_NAME.format('other')}{_ENDS}",
    re.MULTILINE | re.IGNORECASE,
)
_WORDS = re.compile(
    rf"{_BEGINS}{_NAME.format('one')}\s+{_MUST_BE}(?:(?P<less>{_LESS})|{_MORE})\s+{_NAME.format('other')}{_ENDS}",
    re.MULTILINE,
)
_ENTRY = re.compile(
    rf"^\s*{_NAME.format('one')}\s*(?:\([^()\n]*\)\s*)?:(?:[^\n]*?,)?\s*(?:strictly\s+)?(?:must be\s+)?"
    rf"(?:(?P<less><=?|≤|(?:less|smaller|lower) than)|(?:>=?|≥|(?:larger|greater|higher) than))\s+(?:the\s+)?{_NAME.format('other')}{_ENDS}",
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
        yield from _in_checks(function)


def _in_prose(text: str, names: Collection[str]) -> Iterator[Order]:
    yield from ordered_in(text, names)
    for match in _SIGNS.finditer(text):
        yield _order(match["one"], match["other"], is_less=match["sign"][0] in "<≤")
    for form in (_WORDS, _ENTRY):
        for match in form.finditer(text):
            yield _order(match["one"], match["other"], is_less=match["less"] is not None)


def _order(first: str, second: str, *, is_less: bool) -> Order:
    return (first, second) if is_less else (second, first)


def _in_checks(function: Callable[..., Any]) -> Iterator[Order]:
    """What stands at the top of the function, of parameters as they were passed."""
    written = text_of(function)
    given: set[str] = set()
    for statement in () if written is None else written.statements:
        found: Iterator[Order] = iter(())
        if isinstance(statement, ast.Assert):
            found = _required(statement.test, truth=True)
        elif isinstance(statement, ast.If) and ends_in_raise(statement.body):
            found = _required(statement.test, truth=False)
        yield from (order for order in found if not given.intersection(order))
        stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
        given |= {n.id for n in stored if isinstance(n.ctx, ast.Store)}


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
