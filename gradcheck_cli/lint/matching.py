"""Does a term have the form of a pattern? Sums and products match in any order.

A name of a pattern stands for any term, the same one wherever it occurs; `_more` in a sum or a product takes what is
left of it. At the root, a product may hold more than the pattern says.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint.lifting import expression
from gradcheck_cli.lint.terms import NAME, NUMBER, PRODUCT, SUM, Term

Found = Mapping[str, Term]

REST = "_more"
_MOST = 12  # operands of a sum that are tried in every order
_KNOWN: dict[int, tuple[Sequence[Term], _Wanted]] = {}


@functools.cache
def pattern(text: str) -> Term:
    """The term of a pattern: `log(1 + exp(x))`; functions go by the names that heads have."""
    called = (n.func for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Call))
    return expression(text, sorted({f.id for f in called if isinstance(f, ast.Name)}))


def matches(form: Term, term: Term, *, whole: bool = False) -> Iterator[Found]:
    """What the pattern's names stand for, each way in which it matches; `whole`: no factor is left over."""
    yield from _match(form, term, {}, root=not whole)


def _match(form: Term, term: Term, found: Found, *, root: bool = False) -> Iterator[Found]:
    if form.head == NAME:
        bound = found.get(str(form.value))
        if bound is None:
            yield {**found, str(form.value): term}
        elif bound == term:
            yield found
        return
    if form.head == NUMBER:
        if term.head == NUMBER and form.value == term.value:
            yield found
        return
    if form.head in (SUM, PRODUCT) and term.head == form.head:
        yield from _in_any_order(form.args, term.args, found, root and form.head == PRODUCT)
        return
    other = form.value not in (None, term.value)  # a pattern says nothing of the index
    if form.head != term.head or other or len(form.args) > len(term.args):
        return
    yield from _in_order(form.args, term.args, found)


def _in_order(forms: Sequence[Term], args: Sequence[Term], found: Found) -> Iterator[Found]:
    if not forms:
        yield found
        return
    for one in _match(forms[0], args[0], found):
        yield from _in_order(forms[1:], args[1:], one)


def _in_any_order(
    forms: Sequence[Term], args: Sequence[Term], found: Found, root: bool
) -> Iterator[Found]:
    wanted = _wanted(forms)
    if len(wanted.forms) > len(args) or len(args) > _MOST:
        return
    if not wanted.heads.issubset([arg.head for arg in args]):
        return
    for one, left in _assigned(wanted.forms, list(args), found):
        if not left or wanted.takes_rest or root:
            yield one


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The operands of a pattern's sum or product: what says most first, for names match anything."""

    forms: Sequence[Term]
    heads: frozenset[str]  # that some operand must have
    takes_rest: bool


def _wanted(forms: Sequence[Term]) -> _Wanted:
    """What one pattern wants, worked out once: it is the same object each time, and stays."""
    known = _KNOWN.get(id(forms))
    if known is not None and known[0] is forms:
        return known[1]
    rest = [f for f in forms if f.head == NAME and f.value == REST]
    others = [f for f in forms if f not in rest]
    wanted = _Wanted(
        sorted(others, key=lambda f: (f.head == NAME, f.head == NUMBER)),
        frozenset(f.head for f in others if f.head != NAME),
        bool(rest),
    )
    _KNOWN[id(forms)] = forms, wanted
    return wanted


def _assigned(
    forms: Sequence[Term], args: list[Term], found: Found
) -> Iterator[tuple[Found, list[Term]]]:
    if not forms:
        yield found, args
        return
    for i, arg in enumerate(args):
        for one in _match(forms[0], arg, found):
            yield from _assigned(forms[1:], args[:i] + args[i + 1 :], one)
