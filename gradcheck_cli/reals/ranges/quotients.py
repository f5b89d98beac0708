"""Quotients of polynomials in atoms: numbers of which only the atoms are known to lie somewhere."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

_MOST_TERMS = 64

Mono = tuple[tuple[int, int], ...]  # (atom, exponent), by atom
Poly = dict[Mono, Fraction]
ONE: Mono = ()


class Unknown(Exception):
    """This cannot be said of the whole stretch: look at a narrower one."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two polynomials in atoms."""

    num: Poly
    den: Poly


def const(value: Fraction | int) -> Ratio:
    return Ratio({ONE: Fraction(value)} if value else {}, {ONE: Fraction(1)})


def neg(x: Ratio) -> Ratio:
    return Ratio({mono: -c for mono, c in x.num.items()}, x.den)


def add(a: Ratio, b: Ratio) -> Ratio:
    if a.den == b.den:
        return Ratio(_added(a.num, b.num), a.den)
    return Ratio(
        _added(_multiplied(a.num, b.den), _multiplied(b.num, a.den)), _multiplied(a.den, b.den)
    )


def sub(a: Ratio, b: Ratio) -> Ratio:
    return add(a, neg(b))


def mul(a: Ratio, b: Ratio) -> Ratio:
    if a.num == b.den:
        return Ratio(b.num, a.den)
    if b.num == a.den:
        return Ratio(a.num, b.den)
    return Ratio(_multiplied(a.num, b.num), _multiplied(a.den, b.den))


def div(a: Ratio, b: Ratio) -> Ratio:
    if not b.num:
        raise Unknown
    return mul(a, Ratio(b.den, b.num))


def power(x: Ratio, n: int) -> Ratio:
    if n < 0:
        return div(const(1), power(x, -n))
    product = const(1)
    for _ in range(n):
        product = mul(product, x)
    return product


def _added(a: Poly, b: Poly) -> Poly:
    total = dict(a)
    for mono, factor in b.items():
        total[mono] = total.get(mono, Fraction(0)) + factor
        if not total[mono]:
            del total[mono]
    return total


def _multiplied(a: Poly, b: Poly) -> Poly:
    if len(a) * len(b) > _MOST_TERMS:
        raise Unknown
    total: Poly = {}
    for left, c in a.items():
        for right, d in b.items():
            total = _added(total, {_joined(left, right, 1): c * d})
    return total


def _joined(a: Mono, b: Mono, sign: int) -> Mono:
    powers = dict(a)
    for atom, n in b:
        powers[atom] = powers.get(atom, 0) + sign * n
    return tuple(sorted((atom, n) for atom, n in powers.items() if n))


def over(mono: Mono, divisor: Mono) -> Mono:
    return _joined(mono, divisor, -1)


def key(x: Ratio) -> Any:
    return tuple(sorted(x.num.items())), tuple(sorted(x.den.items()))


def whole(x: Ratio) -> int | None:
    """The integer that it is."""
    if not x.num:
        return 0
    if x.num.keys() != {ONE} or x.den.keys() != {ONE}:
        return None
    value = x.num[ONE] / x.den[ONE]
    return int(value) if value.denominator == 1 else None
