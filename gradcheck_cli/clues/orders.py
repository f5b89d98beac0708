"""Which of two arguments is the larger one wherever somebody means the call, as texts and checks say.

Texts, in a sentence that says little else: the chain `0 < lo < hi`, `assumes lo < hi`, `hi must be larger than lo`, an entry
`hi: the upper end, > lo`. Checks at the top of a function: `assert a < b`, and what raises. A comparison alone is no promise:
`x < knee` may be a branch, and `0 < x < knee` where it is taken.
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
_MUST_BE = r"(?:must|has to|have to|should|is always|are always)\s+(?:be\s+)?(?:strictly\s+)?"
_LESS, _MORE = r"(?:less|smaller|lower|below)(?:\s+than)?", r"(?:larger|greater|higher|above)(?:\s+than)?"  # fmt: skip
_SIGNS = re.compile(
    rf"(?:it\s+)?(?:requires|assumes|assuming|must have|(?:it is )?(?:required|assumed|ensured)\s+that)\s+(?:that\s+)?"
    rf"{_NAME.format('one')}\s*(?P<sign>[<>]=?|≤|≥)\s*{_NAME.format('other')}",
    re.IGNORECASE,
)
_WORDS = re.compile(
    rf"(?:the\s+)?{_NAME.format('one')}\s+{_MUST_BE}(?:(?P<less>{_LESS})|{_MORE})\s+{_NAME.format('other')}"
)
_ENTRY = re.compile(
    rf"{_NAME.format('one')}\s*(?:\([^()]*\)\s*)?:(?:[^:]*,)?\s*(?:strictly\s+)?(?:must be\s+)?"
    rf"(?:(?P<less><=?|≤|(?:less|smaller|lower) than)|(?:>=?|≥|(?:larger|greater|higher) than))\s+(?:the\s+)?{_NAME.format('other')}"
)
# A line goes on in the next one, unless that is empty, an item or an entry of its own.
_GOES_ON = re.compile(r"[ \t]*\n(?!\s*\n)(?!\s*(?:[-*•]\s|`*\w+`*\s*(?:\([^()\n]*\)\s*)?:))[ \t]*")
_SENTENCE = re.compile(r"\.(?:\s+|$)|\n")
# What makes a condition, an exception or another thing of it.
_NO_PROMISE = re.compile(
    r"\b(?:if|when|whenever|where|wherever|while|until|unless|once|without|not|no|never|nor|otherwise|else|or|than \w+ (?:times|plus|minus)|swapp?\w*"
    r"|between|beyond|outside|inside|linear\w*|quadratic\w*|region\w*|regimes?|slopes?|clamp\w*|clipp\w*|returns?|gives?|zero|nonzero|elsewhere|nan)\b",
    re.IGNORECASE,
)
_LOWER_FIRST, _UPPER_FIRST = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE)
_WHOLES = frozenset({"all", "any"})  # what says of an array what holds for its entries


def orders(
    functions: Sequence[Callable[..., Any]], paths: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """The arguments that have others below them, each with these."""
    paths = list(paths)
    last = [last_name(path) for path in paths]
    by_name = {name: path for name, path in zip(last, paths, strict=True) if last.count(name) == 1}
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
    """What sentences promise, but where the text compares the two the other way round, too."""
    for sentence in _SENTENCE.split(_GOES_ON.sub(" ", text)):
        if _NO_PROMISE.search(sentence) is None:
            for order in (*ordered_in(sentence, names), *_in_sentence(sentence.strip(" ,:;`"))):
                if _turned(order).search(text) is None:
                    yield order


def _in_sentence(sentence: str) -> Iterator[Order]:
    for form in (_SIGNS, _WORDS, _ENTRY):
        match = form.fullmatch(sentence)
        if match is not None:
            found = match.groupdict()
            is_less = found["sign"][0] in "<≤" if "sign" in found else found["less"] is not None
            yield _order(match["one"], match["other"], is_less=is_less)


def _turned(order: Order) -> re.Pattern[str]:
    """What says that the lesser one may be the larger one."""
    lesser, larger = map(re.escape, order)
    return re.compile(
        rf"\b{lesser}`*\s*(?:>=?|≥)\s*`*{larger}\b|\b{larger}`*\s*(?:<=?|≤)\s*`*{lesser}\b"
    )


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
        if any(isinstance(n, ast.Return) for n in ast.walk(statement)):
            return  # what follows holds for the other calls alone
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
