"""The range of a program over a wide stretch of its one argument.

Balls of such width know nothing: e/(1 + e) with e anywhere in [2, 10⁹⁹] could be anything. Here a
number is a quotient of polynomials in atoms (the argument, an exponential, a logarithm, …), and each
atom is known to lie between two ends. Divided by the largest monomial below, e/(1 + e) is
1/(1/e + 1), and its range is as narrow as it really is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from flint import arb

from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.facts import Law, functions
from gradcheck_cli.reals.program import Program
from gradcheck_cli.reals.ranges.quotients import (
    ONE,
    Mono,
    Poly,
    Ratio,
    Unknown,
    add,
    const,
    div,
    key,
    mul,
    neg,
    over,
    power,
    sub,
    whole,
)
from gradcheck_cli.reals.walk import walk

_BITS = 320  # exp(3e38) has 129 bits before its point
_MOST_POWER = 16


class Span(NamedTuple):
    """Everything between two ends."""

    low: arb
    high: arb


class Undefined:
    """What no real number is, anywhere in the stretch: the logarithm of negative numbers."""


UNDEFINED = Undefined()


def spans(program: Program, low: float, high: float) -> list[Span | Undefined] | None:
    """For each output of a scalar program its range over [low, high]; None: not known."""
    with working(_BITS):
        domain = Spans(low, high, _RULES)
        try:
            outs = walk(program, domain, [domain.argument])
            return [o if isinstance(o, Undefined) else domain.span(o) for o in outs]
        except Unknown:
            return None


class Spans:
    """The walk of one program over one stretch."""

    def __init__(self, low: float, high: float, rules: Mapping[str, Any]) -> None:
        self.rules = rules
        self.atoms: list[Span] = []
        self.atom_numbers: dict[Any, int] = {}
        self.argument = self.atom("x", lambda: Span(arb(low), arb(high)))

    def constant(self, value: Any) -> Any:
        array = np.asarray(value)
        if array.shape != ():
            raise Unknown
        if array.dtype == bool:
            return bool(array)
        number = float(array)
        return const(Fraction(number)) if np.isfinite(number) else None

    def kept(self, value: Any) -> Any:
        return value

    def native(self, step: Any, values: Sequence[Any]) -> Sequence[Any]:
        raise Unknown

    # -- atoms ----------------------------------------------------------------------------

    def atom(self, key: Any, span: Callable[[], Span]) -> Ratio:
        """A number by its key: equal keys are one number."""
        if key not in self.atom_numbers:
            self.atoms.append(span())
            self.atom_numbers[key] = len(self.atoms) - 1
        return Ratio({((self.atom_numbers[key], 1),): Fraction(1)}, {ONE: Fraction(1)})

    def applied(self, name: str, x: Ratio, span: Callable[[Span], Span]) -> Ratio:
        return self.atom((name, key(x)), lambda: span(self.span(x)))

    # -- ranges ---------------------------------------------------------------------------

    def span(self, x: Ratio) -> Span:
        """Above and below divided by the largest monomial below."""
        if not x.num:
            return Span(arb(0), arb(0))
        largest = max(x.den, key=lambda mono: _Size(abs(_middle(self._mono(mono)))))
        above, below = self._sum(x.num, largest), self._sum(x.den, largest)
        if below.low <= 0 <= below.high:
            raise Unknown
        return _times(above, Span((1 / below.high).lower(), (1 / below.low).upper()))

    def _sum(self, poly: Poly, divisor: Mono) -> Span:
        low, high = arb(0), arb(0)
        for mono, factor in poly.items():
            weight = arb(factor.numerator) / factor.denominator
            part = _times(Span(weight.lower(), weight.upper()), self._mono(over(mono, divisor)))
            low, high = low + part.low, high + part.high
        return Span(low.lower(), high.upper())

    def _mono(self, mono: Mono) -> Span:
        product = Span(arb(1), arb(1))
        for atom, n in mono:
            product = _times(product, _power(self.atoms[atom], n))
        return product

    def sign(self, x: Ratio) -> int:
        """The sign of a difference; equal numbers have the sign 0."""
        low, high = self.span(x)
        if low > 0 or high < 0:
            return 1 if low > 0 else -1
        if low == 0 and high == 0:
            return 0
        raise Unknown

    # -- functions ------------------------------------------------------------------------

    def exp(self, x: Ratio) -> Ratio:
        """exp(−x) is 1/exp(x), not an atom of its own."""
        if not x.num:
            return const(1)
        if x.num[min(x.num)] * x.den[min(x.den)] < 0:
            return div(const(1), self.exp(neg(x)))
        return self.applied("exp", x, lambda s: Span(s.low.exp().lower(), s.high.exp().upper()))

    def log(self, x: Ratio) -> Any:
        return self.rising("log", x, arb.log, 0.0)

    def rising(self, name: str, x: Ratio, function: Callable[[arb], arb], least: float) -> Any:
        """A function that grows, and is undefined below `least`."""
        low, high = self.span(x)
        if high < least:
            return UNDEFINED
        if low < least or (low == least and name == "log"):
            raise Unknown
        return self.applied(name, x, lambda s: Span(function(s.low).lower(), function(s.high).upper()))  # fmt: skip

    def wave(self, name: str, x: Ratio) -> Ratio:
        return self.applied(name, x, lambda s: Span(arb(-1), arb(1)))

    def raised(self, x: Ratio, y: Ratio) -> Any:
        n = whole(y)
        if n is not None and abs(n) <= _MOST_POWER:
            return power(x, n)
        logarithm = self.log(x)
        return logarithm if isinstance(logarithm, Undefined) else self.exp(mul(y, logarithm))


# -- ranges ---------------------------------------------------------------------------------


class _Size:
    """Orders sizes of which balls may overlap."""

    def __init__(self, value: arb) -> None:
        self.value = value.mid()

    def __lt__(self, other: _Size) -> bool:
        return bool(self.value < other.value)


def _middle(span: Span) -> arb:
    return span.low if abs(span.low) > abs(span.high) else span.high


def _times(a: Span, b: Span) -> Span:
    if a.low >= 0 and b.low >= 0:
        return Span((a.low * b.low).lower(), (a.high * b.high).upper())
    corners = [p * q for p in a for q in b]
    low, high = corners[0], corners[0]
    for corner in corners[1:]:
        low, high = low.min(corner), high.max(corner)
    return Span(low.lower(), high.upper())


def _power(x: Span, n: int) -> Span:
    if n < 0:
        if x.low <= 0 <= x.high:
            raise Unknown
        below = _power(x, -n)
        return Span((1 / below.high).lower(), (1 / below.low).upper())
    power = x
    for _ in range(n - 1):
        power = _times(power, x)
    if n % 2 == 0 and x.low <= 0 <= x.high:
        return Span(arb(0), power.high)
    return power


# -- primitives -------------------------------------------------------------------------------


def _plain(function: Callable[..., Any]) -> Any:
    """A rule of numbers: what is undefined stays so, an infinite constant is not spoken of."""

    def rule(domain: Spans, step: Any, values: list[Any], walk: Any) -> list[Any]:
        if any(v is None for v in values) or any(aval.shape for aval in step.out_avals):
            raise Unknown
        if any(isinstance(v, Undefined) for v in values):
            return [UNDEFINED]
        return [function(domain, *values)]

    return rule


def _compared(test: Callable[[int], bool]) -> Any:
    return _plain(lambda domain, a, b: test(domain.sign(sub(_number(a), _number(b)))))


def _number(value: Any) -> Ratio:
    return const(int(value)) if isinstance(value, bool) else value


def _selected(domain: Spans, step: Any, values: list[Any], walk: Any) -> list[Any]:
    which = values[0]
    if not isinstance(which, bool):
        raise Unknown
    return [values[1 + which]]


def _converted(domain: Spans, step: Any, values: list[Any], walk: Any) -> list[Any]:
    kind = step.out_avals[0].kind
    if kind == step.in_avals[0].kind:
        return list(values)
    if kind == "f" and isinstance(values[0], (bool, Ratio)):
        return [_number(values[0])]
    raise Unknown


def _kept(domain: Spans, step: Any, values: list[Any], walk: Any) -> list[Any]:
    if step.out_avals[0].shape:
        raise Unknown
    return values[:1]


def _tanh(domain: Spans, x: Ratio) -> Ratio:
    grown = power(domain.exp(x), 2)
    return div(sub(grown, const(1)), add(grown, const(1)))


def _hyperbolic(sign: int) -> Any:
    def function(domain: Spans, x: Ratio) -> Ratio:
        grown = domain.exp(x)
        return div(add(power(grown, 2), const(sign)), mul(const(2), grown))

    return function


def _logistic(domain: Spans, x: Ratio) -> Ratio:
    grown = domain.exp(x)
    return div(grown, add(const(1), grown))


def _absolute(domain: Spans, x: Ratio) -> Ratio:
    return x if domain.sign(x) >= 0 else neg(x)


def _larger(domain: Spans, a: Ratio, b: Ratio) -> Ratio:
    return a if domain.sign(sub(a, b)) >= 0 else b


def _smaller(domain: Spans, a: Ratio, b: Ratio) -> Ratio:
    return b if domain.sign(sub(a, b)) >= 0 else a


def _rising(name: str, function: Callable[[arb], arb], least: float = -np.inf) -> Any:
    return _plain(lambda domain, x: domain.rising(name, x, function, least))


def _sqrt(domain: Spans, x: Ratio) -> Any:
    return domain.rising("sqrt", x, arb.sqrt, 0.0)


def _rsqrt(domain: Spans, x: Ratio) -> Any:
    root = _sqrt(domain, x)
    return root if isinstance(root, Undefined) else div(const(1), root)


def _erfc(domain: Spans, x: Ratio) -> Ratio:
    return domain.applied("erfc", x, lambda s: Span(s.high.erfc().lower(), s.low.erfc().upper()))


def _integer_pow(domain: Spans, step: Any, values: list[Any], walk: Any) -> list[Any]:
    n = step.params["y"]
    if abs(n) > _MOST_POWER:
        raise Unknown
    return (
        domain.rules["square"](domain, step, values, walk) if n == 2 else [_powered(values[0], n)]
    )


def _powered(value: Any, n: int) -> Any:
    if value is None:
        raise Unknown
    return value if isinstance(value, Undefined) else power(value, n)


_RULES: dict[str, Any] = {
    "add": _plain(lambda domain, a, b: add(a, b)),
    "add_any": _plain(lambda domain, a, b: add(a, b)),
    "sub": _plain(lambda domain, a, b: sub(a, b)),
    "mul": _plain(lambda domain, a, b: mul(a, b)),
    "div": _plain(lambda domain, a, b: div(a, b)),
    "neg": _plain(lambda domain, x: neg(x)),
    "square": _plain(lambda domain, x: power(x, 2)),
    "one_minus_square": _plain(lambda domain, x: sub(const(1), power(x, 2))),
    "max": _plain(_larger),
    "min": _plain(_smaller),
    "clamp": _plain(lambda domain, a, x, b: _smaller(domain, _larger(domain, x, a), b)),
    "abs": _plain(_absolute),
    "sign": _plain(lambda domain, x: const(domain.sign(x))),
    "exp": _plain(lambda domain, x: domain.exp(x)),
    "expm1": _plain(lambda domain, x: sub(domain.exp(x), const(1))),
    "log": _plain(lambda domain, x: domain.log(x)),
    "log1p": _plain(lambda domain, x: domain.log(add(const(1), x))),
    "log2": _plain(lambda domain, x: div(domain.log(x), domain.log(const(2)))),
    "logistic": _plain(_logistic),
    "tanh": _plain(_tanh),
    "sinh": _plain(_hyperbolic(-1)),
    "cosh": _plain(_hyperbolic(1)),
    "sqrt": _plain(_sqrt),
    "rsqrt": _plain(_rsqrt),
    "pow": _plain(lambda domain, x, y: domain.raised(x, y)),
    "sin": _plain(lambda domain, x: domain.wave("sin", x)),
    "cos": _plain(lambda domain, x: domain.wave("cos", x)),
    "atan": _rising("atan", arb.atan),
    "asinh": _rising("asinh", arb.asinh),
    "erf": _rising("erf", arb.erf),
    "erfc": _plain(_erfc),
    "is_finite": _plain(lambda domain, x: True),
    "not": _plain(lambda domain, x: not x),
    "and": _plain(lambda domain, a, b: a and b),
    "or": _plain(lambda domain, a, b: a or b),
    "lt": _compared(lambda sign: sign < 0),
    "le": _compared(lambda sign: sign <= 0),
    "gt": _compared(lambda sign: sign > 0),
    "ge": _compared(lambda sign: sign >= 0),
    "eq": _compared(lambda sign: sign == 0),
    "ne": _compared(lambda sign: sign != 0),
    "integer_pow": _integer_pow,
    "select_n": _selected,
    "convert_element_type": _converted,
    **dict.fromkeys((*functions(Law.IDENTITY), "broadcast_in_dim", "reshape", "squeeze"), _kept),
}
