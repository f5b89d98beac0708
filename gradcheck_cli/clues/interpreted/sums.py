"""Sizes by name under plain operators: `4 * n`, `n + m`, `n - 1`."""

from __future__ import annotations

from gradcheck_cli.clues.interpreted.values import Sum, Symbol, Value

_MOST_TERMS, _LARGEST = 3, 64


def sized(sign: str, left: Value, right: Value) -> Symbol | Sum | None:
    """What the operator makes of two sizes of which one has a name; None where that is no size."""
    one, other = _sum(left), _sum(right)
    if one is None or other is None or not (one.terms or other.terms):
        return None
    if sign == "*" and not (one.terms and other.terms):
        named, times = (one, other.constant) if one.terms else (other, one.constant)
        return _written(Sum((), 0), named, times) if times > 0 else None
    if sign in ("+", "-"):
        return _written(one, other, 1 if sign == "+" else -1)
    return None


def _sum(value: Value) -> Sum | None:
    """A size as a sum: a whole number has no terms."""
    if isinstance(value, Sum):
        return value
    if isinstance(value, Symbol):
        return Sum(((value, 1),))
    return Sum((), value) if type(value) is int else None


def _written(one: Sum, other: Sum, times: int) -> Symbol | Sum | None:
    """The first and so many times the second; None where that is longer than sizes are."""
    counts = dict(one.terms)
    for symbol, count in other.terms:
        counts[symbol] = counts.get(symbol, 0) + times * count
    terms = [(symbol, count) for symbol, count in counts.items() if count]
    terms.sort(key=lambda term: (term[0].name, id(term[0])))
    constant = one.constant + times * other.constant
    if not terms or len(terms) > _MOST_TERMS or any(not 0 < n <= _LARGEST for _, n in terms):
        return None
    plain = len(terms) == 1 and terms[0][1] == 1 and not constant
    return terms[0][0] if plain else Sum(tuple(terms), constant)
