"""Neutral terms: what an expression computes, in whatever framework and over however many lines it is written.

Differences are sums, quotients are products, roots are powers: `a - b` is `a + (-1)·b`, `a / b` is `a · b^-1`. So
one pattern matches all spellings. A term knows where it was written; two terms are equal if they compute the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

NUMBER, NAME, SUM, PRODUCT, POWER = "number", "name", "+", "*", "^"
SETTING = "setting"  # a name, and the number that it is by default

Options = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class Term:
    """A number, a name, or a function of other terms. `options` hold what is no operand: an axis, a dtype."""

    head: str
    args: tuple[Term, ...] = ()
    value: float | str | None = None
    options: Options = field(default=(), compare=False)
    size: int = field(init=False, compare=False, repr=False)  # of the whole tree
    holds: frozenset[object] = field(init=False, compare=False, repr=False)  # its heads and numbers

    def __post_init__(self) -> None:
        own = self.value if self.head == NUMBER else self.head
        object.__setattr__(self, "size", 1 + sum(arg.size for arg in self.args))
        object.__setattr__(self, "holds", frozenset((own,)).union(*(a.holds for a in self.args)))

    def parts(self) -> Iterator[Term]:
        """The term and all that it is made of."""
        yield self
        for arg in self.args:
            yield from arg.parts()

    @property
    def number(self) -> float | None:
        return self.value if self.head == NUMBER and isinstance(self.value, float) else None


def number(value: float) -> Term:
    return Term(NUMBER, value=float(value))


def name(text: str) -> Term:
    return Term(NAME, value=text)


def call(head: str, *args: Term, options: Options = ()) -> Term:
    return Term(head, args, options=options)


MINUS_ONE = number(-1)


def total(terms: Sequence[Term]) -> Term:
    """The sum: flat, with its numbers added up at the end."""
    flat = [part for term in terms for part in (term.args if term.head == SUM else (term,))]
    constant = sum(t.number for t in flat if t.number is not None)
    rest = [t for t in flat if t.number is None]
    if constant or not rest:
        rest.append(number(constant))
    return rest[0] if len(rest) == 1 else Term(SUM, tuple(rest))


def product(terms: Sequence[Term]) -> Term:
    """The product: flat, with its numbers multiplied in front; a number goes into a sum, equal factors into a power."""
    flat = [part for term in terms for part in (term.args if term.head == PRODUCT else (term,))]
    constant = math.prod(t.number for t in flat if t.number is not None)
    rest = _gathered([t for t in flat if t.number is None])
    if not rest or constant == 0:
        return number(constant)
    if len(rest) == 1 and rest[0].head == SUM and constant != 1:
        return total([product([number(constant), part]) for part in rest[0].args])
    if constant != 1:
        rest.insert(0, number(constant))
    return rest[0] if len(rest) == 1 else Term(PRODUCT, tuple(rest))


def _gathered(factors: Sequence[Term]) -> list[Term]:
    """Equal factors as one power; x / x stays, for it is none where x is zero."""
    powers: dict[Term, float] = {}
    rest: list[Term] = []
    for factor in factors:
        base, exponent = _as_power(factor)
        if exponent is None or exponent <= 0 or not exponent.is_integer():
            rest.append(factor)
        else:
            powers[base] = powers.get(base, 0) + exponent
    return [*(power(base, number(exponent)) for base, exponent in powers.items()), *rest]


def _as_power(term: Term) -> tuple[Term, float | None]:
    if term.head == POWER and term.args[1].number is not None:
        return term.args[0], term.args[1].number
    return term, 1.0


def power(base: Term, exponent: Term) -> Term:
    """base^exponent, where numbers are worked out."""
    to = exponent.number
    if to == 1:
        return base
    if to is not None and base.number is not None:
        try:
            value = base.number**to
        except (OverflowError, ZeroDivisionError):
            return Term(POWER, (base, exponent))
        if isinstance(value, float):
            return number(value)
    if base.head == POWER and to is not None:
        inner = base.args[1].number
        if inner is not None and to == -1:
            return Term(POWER, (base.args[0], number(-inner)))
    return Term(POWER, (base, exponent))


def negative(term: Term) -> Term:
    return product([MINUS_ONE, term])


def difference(left: Term, right: Term) -> Term:
    return total([left, negative(right)])


def quotient(above: Term, below: Term) -> Term:
    """above / below; what divides by a product divides by each factor."""
    factors = below.args if below.head == PRODUCT else (below,)
    return product([above, *(power(factor, MINUS_ONE) for factor in factors)])


def is_negated(term: Term) -> bool:
    """Is it taken away, where it stands in a sum?"""
    value = term.args[0].number if term.head == PRODUCT else term.number
    return value is not None and value < 0
