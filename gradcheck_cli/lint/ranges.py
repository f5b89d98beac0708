"""What a term can be in float32, whatever its names hold: the ends are reached.

So `sigmoid(x)` is from 0 to 1, both ends included, for floats round there; `exp(x - max(x))` is at most 1, its sum
at least 1; a clamp is as its bounds say. Of a name nothing is known.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.lint.terms import (
    NAME,
    NUMBER,
    POWER,
    PRODUCT,
    SETTING,
    SUM,
    Term,
    is_negated,
    negative,
    number,
    power,
)

INF = math.inf
_REMEMBERED = 20_000  # terms
# What is taken of an array as a whole, and of several: its largest or its least.
_Ends = tuple[tuple[str, ...], tuple[str, ...]]
_TOPS: _Ends = (("max", "logsumexp"), ("maximum", "logaddexp"))
_LEASTS: _Ends = (("min",), ("minimum",))
_BY_NAME, _BESIDE = 1e-30, 1e-3
_EXP_OVERFLOWS, _EXP_VANISHES, _SIGMOID_IS_ONE = 88.0, -103.0, 17.0


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the largest number."""

    low: float = -INF
    high: float = INF

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def ends_near_zero(self) -> bool:
        """Does it begin beside zero, as behind an eps? What is positive by its name is not small by that."""
        return _BY_NAME < self.low <= _BESIDE


ANY = Range()
_POSITIVE = Range(_BY_NAME, INF)
# What is positive by its name.
_WIDTH = re.compile(r"(?:^|[_.])(?:temperature|temp|sigma|std|stddev|scale|tau|bandwidth|lengthscale|length_scale|variance|ell|sd|eps|tiny|epsilon|smallest_normal)(?:#\d+)?$", re.IGNORECASE)  # fmt: skip
_ABOVE_ZERO = re.compile(r"^[\w.]+ > 0(?:\.0*)?$")
_UNIT, _SIGNED_UNIT, _NOT_NEGATIVE = Range(0, 1), Range(-1, 1), Range(0, INF)


@functools.lru_cache(_REMEMBERED)
def range_of(term: Term) -> Range:
    """The range of a term."""
    if term.head == NUMBER:
        value = float(term.value or 0)
        return Range(value, value)
    if term.head == SETTING:
        return range_of(term.args[1])
    if term.head in (NAME, "attribute"):
        return _POSITIVE if _WIDTH.search(str(term.value)) else ANY
    of = _OF.get(term.head)
    if of is None:
        return ANY
    try:
        return of(term)
    except (OverflowError, ValueError, ZeroDivisionError):
        return ANY


def _sum(term: Term) -> Range:
    if _is_shifted(term.args, _TOPS):
        return Range(-INF, 0.0)  # what is added beside it is taken for a logarithm of a share
    ranges = [range_of(a) for a in term.args]
    return Range(sum(r.low for r in ranges), sum(r.high for r in ranges))


def is_shifted(term: Term) -> bool:
    """Was its maximum taken from it, or it from its minimum: `x - max(x)`, `(min(x) - x) / tau`, `-beta * (x - min(x))`?

    What else it is multiplied with is taken for positive, as temperatures are.
    """
    if term.head == PRODUCT:
        turned = math.prod(arg.number for arg in term.args if arg.number is not None) < 0
        sums = (arg for arg in term.args if arg.head == SUM)
        return any(is_shifted(negative(each) if turned else each) for each in sums)
    if term.head != SUM:
        return False
    return _is_shifted(term.args, _TOPS) or _is_shifted([*map(negative, term.args)], _LEASTS)


def _is_shifted(args: Sequence[Term], ends: _Ends) -> bool:
    """Is it x less its end, or less the logarithm of a sum of exponentials that holds it?"""
    for other in args:
        tops = _taken(negative(other), ends) if is_negated(other) else []
        if any(_holds(top, args) for top in tops):
            return True
    return False


def _taken(term: Term, ends: _Ends) -> list[Term]:
    """What a maximum, a minimum or a logsumexp is taken of."""
    of_one, of_several = ends
    if term.head in of_one:
        return list(term.args[:1])
    if term.head in (*of_several, "index", "attribute"):
        return [*term.args, *(t for a in term.args for t in _taken(a, ends))]
    return []


def _holds(top: Term, args: Sequence[Term]) -> bool:
    """Does a sum hold what the maximum was taken of, or one of several that it was taken of?"""
    if top.head in ("tuple", "maximum", "each"):
        return any(inner in args for inner in top.args)
    return set(top.args if top.head == SUM else (top,)) <= set(args)


def _product(term: Term) -> Range:
    low, high = 1.0, 1.0
    for arg in term.args:
        r = range_of(arg)
        ends = [_times(a, b) for a in (low, high) for b in (r.low, r.high)]
        low, high = min(ends), max(ends)
    return Range(low, high)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _power(term: Term) -> Range:
    base, to = range_of(term.args[0]), term.args[1].number
    if to is None:
        return _NOT_NEGATIVE if base.low >= 0 else ANY
    if to == int(to) and int(to) % 2 == 0 and to > 0:
        ends = [abs(base.low) ** to, abs(base.high) ** to]
        return Range(0.0 if base.has(0) else min(ends), max(ends))
    if to > 0:
        if to == int(to):
            return Range(base.low**to, base.high**to)
        return Range(max(base.low, 0.0) ** to, base.high**to if base.high >= 0 else 0.0)
    if base.low > 0:
        return Range(base.high**to if base.high < INF else 0.0, base.low**to)
    if base.low == 0 or (to != int(to)) or int(to) % 2 == 0:
        return Range(base.high**to if 0 < base.high < INF else 0.0, INF)
    return ANY


def _exp(term: Term) -> Range:
    r = range_of(term.args[0])
    low = 0.0 if r.low < _EXP_VANISHES else math.exp(min(r.low, _EXP_OVERFLOWS))
    return Range(low, INF if r.high > _EXP_OVERFLOWS else math.exp(r.high))


def _log(term: Term) -> Range:
    r = range_of(term.args[0])
    return Range(-INF if r.low <= 0 else math.log(r.low), INF if r.high == INF else math.log(r.high) if r.high > 0 else -INF)  # fmt: skip


def _sigmoid(term: Term) -> Range:
    r = range_of(term.args[0])
    low = 0.0 if r.low < _EXP_VANISHES else 1 / (1 + math.exp(-r.low))
    high = 1.0 if r.high >= _SIGMOID_IS_ONE else 1 / (1 + math.exp(-r.high))
    return Range(low, high)


def _total(term: Term) -> Range:
    """The sum of an array: of numbers that are not negative, at least the least of one, and the largest one."""
    inner = term.args[0]
    r = range_of(inner)
    if inner.head == "exp" and is_shifted(inner.args[0]):
        return Range(1.0, INF)
    if inner.head == PRODUCT and sum(map(is_unit, inner.args)) == 2 == len(inner.args):
        return _SIGNED_UNIT
    return Range(r.low if r.low >= 0 else -INF, 0.0 if r.high <= 0 else INF)


def is_unit(term: Term) -> bool:
    """Was it divided by its own length?"""
    if term.head in ("unit", "index") and (term.head == "unit" or is_unit(term.args[0])):
        return True
    if term.head != PRODUCT or len(term.args) != 2:
        return False
    x, inverse = term.args
    return inverse.head == POWER and any(_is_length(part, x) for part in inverse.parts())


def _is_length(term: Term, x: Term) -> bool:
    if term.head == "norm":
        return term.args[0] == x
    return term.head == "sum" and term.args[0] == power(x, number(2))


def _between_units(term: Term) -> Range:
    return _SIGNED_UNIT if all(map(is_unit, term.args)) else ANY


def _mean(term: Term) -> Range:
    inner = term.args[0]
    if inner.head == "exp" and is_shifted(inner.args[0]):
        return Range(1e-30, 1.0)
    return range_of(inner)


def _same(term: Term) -> Range:
    return range_of(term.args[0])


def _picked(term: Term) -> Range:
    """An element or a part; of `p[p > 0]` what is above zero."""
    if _ABOVE_ZERO.search(str(term.value)):
        return _POSITIVE
    return range_of(term.args[0])


def _maximum(term: Term) -> Range:
    ranges = [range_of(a) for a in term.args]
    return Range(max(r.low for r in ranges), max(r.high for r in ranges))


def _minimum(term: Term) -> Range:
    ranges = [range_of(a) for a in term.args]
    return Range(min(r.low for r in ranges), min(r.high for r in ranges))


def _either(term: Term) -> Range:
    ranges = [range_of(a) for a in term.args[-2:]]
    return Range(min(r.low for r in ranges), max(r.high for r in ranges))


def _absolute(term: Term) -> Range:
    r = range_of(term.args[0])
    return Range(0.0 if r.has(0) else min(abs(r.low), abs(r.high)), max(abs(r.low), abs(r.high)))


def _from_to(term: Term) -> Range:
    """Numbers in a row from one end to the other."""
    ends = [range_of(a) for a in term.args[:2]]
    if term.head == "arange" and len(term.args) == 1:
        ends = [Range(0.0, 0.0), *ends]
    return Range(min(r.low for r in ends), max(r.high for r in ends)) if len(ends) > 1 else ANY


def _radians(term: Term) -> Range:
    r = range_of(term.args[0])
    return Range(math.radians(r.low), math.radians(r.high))


def _always(r: Range) -> Callable[[Term], Range]:
    return lambda term: r


_OF: dict[str, Callable[[Term], Range]] = {
    SUM: _sum,
    PRODUCT: _product,
    POWER: _power,
    "exp": _exp,
    "log": _log,
    "sigmoid": _sigmoid,
    "softmax": _always(_UNIT),
    "ndtr": _always(_UNIT),
    "erfc": _always(Range(0, 2)),
    "erf": _always(_SIGNED_UNIT),
    "tanh": _always(_SIGNED_UNIT),
    "sin": _always(_SIGNED_UNIT),
    "cos": _always(_SIGNED_UNIT),
    "cosine_similarity": _always(_SIGNED_UNIT),
    "norm": _always(_NOT_NEGATIVE),
    "var": _always(_NOT_NEGATIVE),
    "std": _always(_NOT_NEGATIVE),
    "relu": _always(_NOT_NEGATIVE),
    "softplus": _always(_NOT_NEGATIVE),
    "cosh": _always(Range(1, INF)),
    "log_softmax": _always(Range(-INF, 0)),
    "log_sigmoid": _always(Range(-INF, 0)),
    "log_ndtr": _always(Range(-INF, 0)),
    "expm1": _always(Range(-1, INF)),
    "abs": _absolute,
    "sum": _total,
    "mean": _mean,
    "matmul": _between_units,
    "double": _same,
    "unit": _always(_SIGNED_UNIT),
    "max": _same,
    "min": _same,
    "cumsum": _same,
    "index": _picked,
    "low": _same,
    "widened": _same,
    "gather": _same,
    "index_select": _same,
    "take": _same,
    "take_along_axis": _same,
    "take_along_dim": _same,
    "arange": _from_to,
    "linspace": _from_to,
    "deg2rad": _radians,
    "radians": _radians,
    "branch": _either,
    "where": _either,
    "maximum": _maximum,
    "minimum": _minimum,
    "one_hot": _always(_UNIT),
    "rand": _always(_UNIT),
    "uniform": _always(_UNIT),
}
