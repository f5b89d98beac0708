"""What a pattern may ask of the terms that its names stand for: `grows(x) and not drawn(x)`.

A condition is one function; a long file of short ones, of which a new one is written below the others.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from gradcheck_cli.lint.ranges import is_shifted, range_of
from gradcheck_cli.lint.terms import NAME, POWER, PRODUCT, SETTING, SUM, Term, is_negated
from gradcheck_cli.lint.vocabulary import DRAWS

_SCALED = 2  # names in `x / alpha`
_OVERFLOW, _VANISH = 88.0, -88.0
_NEXT_TO_ONE = 0.99  # a discount above that takes thousands of steps to vanish
_ONE_BELOW = 1 - 2.0**-25  # rounds to 1 in float32
_OPAQUE = (NAME, "call", "attribute", "index", "integer", "each", "tuple", SETTING)
_OF_LOGITS = ("sigmoid", "softmax")
# What keeps a probability one, on the way from the function that made it.
_CARRIES = (SUM, PRODUCT, "maximum", "minimum", "index", "where", "gather", "index_select", "take", "take_along_dim", "max", "sum", "mean", "take_along_axis", "boolean_mask", "low", "widened")  # fmt: skip
_PROBABILITY = re.compile(r"(?:^|_)(?:p|q|probs?|probabilit(?:y|ies)|preds?|y_?hat|y_?pred|predictions?|softmax\w*|sigmoid\w*|posteriors?|y_?conv|y_)\d*(?:$|_|#)", re.IGNORECASE)  # fmt: skip
_MIXES = ("softmax", "sigmoid", "log_softmax", "matmul")  # what comes out of these is another thing
# Masks, as they are made.
_ASKS = ("gt", "ge", "lt", "le", "eq", "ne", "sequence_mask", "isfinite", "isnan")
_MASK = re.compile(r"(?:^|_)masks?(?:#|$|_)")
_RATE = re.compile(
    r"(?:^|_)(?:rate|growth|yield|interest|returns?|inflation|apr|r)(?:#|_|$)", re.IGNORECASE
)
_GRADIENT = re.compile(r"(?:^|_)g(?:rad(?:ient)?s?)?(?:#|$)")


_Test = TypeVar("_Test", bound=Callable[..., bool])
_TABLE: dict[str, Callable[..., bool]] = {}


def condition(test: _Test) -> _Test:
    """Makes a function one that patterns may ask by its name."""
    _TABLE[test.__name__] = test
    return test


@condition
def grows(x: Term) -> bool:
    """Can it be so large that its exponential overflows?"""
    return x.number is None and range_of(x).high > _OVERFLOW


@condition
def falls(x: Term) -> bool:
    """Can it be so low that its exponential is nothing?"""
    return x.number is None and range_of(x).low < _VANISH


@condition
def near_zero(x: Term) -> bool:
    """Can it be nearly zero, and is it a float?"""
    off_axis = any(part.head == "complex" for part in x.parts())
    return x.number is None and x.head != "integer" and not off_axis and range_of(x).has(0)


@condition
def comes_near_zero(x: Term) -> bool:
    """Can it be nearly zero, be it only by the eps that keeps it from it?"""
    return near_zero(x) or (x.number is None and range_of(x).ends_near_zero)


@condition
def free(x: Term) -> bool:
    """Is it no number that is written there?"""
    return x.number is None


@condition
def zero(x: Term) -> bool:
    return x.number == 0


@condition
def opaque(x: Term) -> bool:
    """Is it a name, or what some other function gives?"""
    return x.head in _OPAQUE


@condition
def given(x: Term) -> bool:
    """Is it a name of which nothing is known?"""
    return x.head == NAME


@condition
def compounds(x: Term) -> bool:
    """Is it a power for each place, or a running product, as a discount is?"""
    if x.head == POWER:
        base = x.args[0].number
        shrinks = not _grows_from_one(x.args[0]) if base is None else abs(base) < _NEXT_TO_ONE
        return shrinks and x.args[1].head in ("arange", "range")
    running = x.head == "exp" and x.args[0].head == "cumsum"
    return running or (x.head == "cumprod" and not _grows_from_one(x.args[0]))


def _grows_from_one(x: Term) -> bool:
    """Is it `1 + rate`?"""
    return (
        x.head == SUM
        and any(arg.number == 1 for arg in x.args)
        and not any(map(is_negated, x.args))
    )


@condition
def endless(x: Term) -> bool:
    """Is it minus infinity?"""
    return x.number is not None and math.isinf(x.number) and x.number < 0


@condition
def handed(x: Term) -> bool:
    """Is it a mask that somebody else makes, or what it leaves out?"""
    asked = x.args[0] if x.head == "not" else x
    if x.head in ("eq", "ne") and any(arg.number in (0, 1) for arg in x.args):
        asked = next((arg for arg in x.args if arg.number is None), x)
    return asked.head == NAME


@condition
def reaches_zero(x: Term) -> bool:
    """Is it exactly zero at some inputs, by what it is made of, and never below?"""
    if x.head in ("norm", "var", "std", "relu"):
        return True
    if x.head in ("sum", "mean", "max", "min", "index", "low", "widened", "double", "each"):
        return reaches_zero(x.args[0])
    test = _REACHES.get(x.head)
    return test is not None and test(x)


@condition
def of_gradients(x: Term) -> bool:
    """Is it made of gradients, which nobody differentiates?"""
    return any(_GRADIENT.search(str(part.value)) for part in x.parts() if part.head == NAME)


def _maximum_reaches_zero(x: Term) -> bool:
    numbers = [a.number for a in x.args if a.number is not None]
    return max(numbers) == 0 if numbers else all(reaches_zero(a) for a in x.args)


def _power_reaches_zero(x: Term) -> bool:
    base, to = x.args[0], x.args[1].number
    if guarded(base):
        return False
    if to is None:  # x ** p of what is not negative
        return reaches_zero(base)
    squares = to > 0 and to.is_integer() and to % 2 == 0
    return (squares and base.number is None and range_of(base).has(0)) or (
        to > 0 and reaches_zero(base)
    )


_REACHES: dict[str, Callable[[Term], bool]] = {
    "abs": lambda x: range_of(x).low == 0 and not guarded(x.args[0]),
    "maximum": _maximum_reaches_zero,
    "minimum": lambda x: any(reaches_zero(a) for a in x.args),
    SUM: lambda x: all(reaches_zero(a) for a in x.args),
    PRODUCT: lambda x: range_of(x).low == 0 and any(reaches_zero(a) for a in x.args),
    POWER: _power_reaches_zero,
}


@condition
def may_vanish(x: Term) -> bool:
    """Can it be zero, for all that is seen?"""
    return x.number is None and range_of(x).has(0) and not guarded(x)


@condition
def guarded(x: Term) -> bool:
    """Was it chosen by a condition, or kept from something?"""
    return any(part.head in ("where", "branch") for part in x.parts())


@condition
def positive(x: Term) -> bool:
    return range_of(x).low > 0


@condition
def of_logits(x: Term) -> bool:
    """Is it a sigmoid or a softmax, or one that was clipped, moved or picked from?"""
    return _is_of(x, _OF_LOGITS)


@condition
def of_softmax(x: Term) -> bool:
    return _is_of(x, ("softmax",))


@condition
def of_sigmoid(x: Term) -> bool:
    return _is_of(x, ("sigmoid",))


@condition
def drawn(x: Term) -> bool:
    """Is it a uniform random number, which may be exactly zero?"""
    bare = _without_casts(x)
    if bare.head in DRAWS:
        return range_of(bare).low <= 0
    name = str(bare.value).rpartition(".")[2] if bare.head in ("call", NAME) else ""
    return name.partition("#")[0] in DRAWS


@condition
def probability(x: Term) -> bool:
    """Is it called a probability?"""
    bare = _without_casts(x)
    if bare.head == "index":
        bare = bare.args[0]
    return bare.head in (NAME, "attribute") and _PROBABILITY.search(str(bare.value)) is not None


@condition
def rounds_to_one(x: Term) -> bool:
    """Is it a number below 1 that is 1 in float32?"""
    value = x.number
    return value is not None and _ONE_BELOW <= value < 1


@condition
def low(x: Term) -> bool:
    """Is it held in half precision?"""
    if x.head in ("widened", "double", "integer"):
        return False
    return x.head == "low" or any(low(a) for a in x.args)


@condition
def lost_in_half(x: Term) -> bool:
    """Is it a number that is zero in float16?"""
    return x.number is not None and 0 < abs(x.number) < 2.0**-25


@condition
def fractional(x: Term) -> bool:
    """Is it an exponent between 0 and 1?"""
    return x.number is not None and 0 < x.number < 1


@condition
def negative_power(x: Term) -> bool:
    return x.number is not None and x.number < 0


@condition
def within_ends(x: Term) -> bool:
    """Does it stay away from 1 and -1, between them?"""
    r = range_of(x)
    return r.low > -1 and r.high < 1


@condition
def unshifted(x: Term) -> bool:
    """Was no maximum taken from it, and can its exponential overflow or vanish?"""
    return not is_shifted(x) and (grows(x) or falls(x))


@condition
def divided(x: Term) -> bool:
    """Is it over a temperature or a width, so that its size is anybody's guess?"""
    return any(map(_is_over, x.args if x.head == PRODUCT else (x,)))


def _is_over(part: Term) -> bool:
    """Does it divide, or is it a power of what does: `(d / h) ** 2`?"""
    if part.head != POWER or part.args[1].number is None:
        return False
    base = part.args[0]
    return part.args[1].number < 0 or any(map(_is_over, base.args if base.head == PRODUCT else ()))


def _is_counted(x: Term) -> bool:
    """Is it made of counts from 0 on, so that the first weight is 1?"""
    parts = x.args if x.head == PRODUCT else (x,)
    return any(part.head == "arange" and len(part.args) == 1 for part in parts)


@condition
def weighs(x: Term) -> bool:
    """Is it less a distance over a width, so that its exponential is a weight that may vanish?"""
    return unshifted(x) and divided(x) and taken_away(x) and not _is_counted(x)


@condition
def small(x: Term) -> bool:
    """Is it a small number, as an eps is?"""
    return x.number is not None and 0 < x.number <= 1e-3


@condition
def small_integer(x: Term) -> bool:
    """Is it of one or two bytes, as far as its functions keep that?"""
    if (
        x.head in ("mean", "std", "var", "integer", "double", "widened", "low", "sum")
        or x.number is not None
    ):
        return False
    return x.head == "small" or (bool(x.args) and small_integer(x.args[0]))


@condition
def shares(a: Term, b: Term) -> bool:
    """Are both made of one name: is the one zero where the other is?"""
    return not names(a).isdisjoint(names(b))


@condition
def same(a: Term, b: Term) -> bool:
    """Are both one array, or one of them the other's transpose?"""
    return a == b


@condition
def squares(x: Term) -> bool:
    inner = x.args[0] if x.head == "each" else x
    return inner.head == POWER and inner.args[1].number == 2


@condition
def far(x: Term) -> bool:
    """Can it be so large that nothing of a normal tail is left?"""
    return x.number is None and range_of(x).high > 5


@condition
def deep(x: Term) -> bool:
    """Can it be so low that nothing of a normal tail is left?"""
    return x.number is None and range_of(x).low < -5


@condition
def inside(x: Term) -> bool:
    """Is it never beyond 1 or -1?"""
    r = range_of(x)
    return r.low >= -1 and r.high <= 1


@condition
def wide(x: Term) -> bool:
    """Can it be so large that its hyperbolic tangent is 1?"""
    return x.number is None and (range_of(x).high > 8 or range_of(x).low < -8)


@condition
def masked(x: Term) -> bool:
    """Is it a mask, or multiplied with one: is all of it zero where the mask is?"""
    factors = _factors(x)
    bare = (f.args[0] if f.args and f.head not in (SUM, POWER, "exp") else f for f in factors)
    return any(f.head in _ASKS for f in (*factors, x)) or any(
        f.head == NAME and _MASK.search(str(f.value)) is not None for f in bare
    )


@condition
def rate(x: Term) -> bool:
    """Is it called a rate, or made of one: what is small beside 1?"""
    return any(_RATE.search(str(part.value)) for part in x.parts() if part.head == NAME)


@condition
def taken_away(x: Term) -> bool:
    return is_negated(x)


@condition
def distance(x: Term) -> bool:
    """Is it a difference of two terms?"""
    return x.head == SUM and len(x.args) == 2 and sum(map(is_negated, x.args)) == 1


@condition
def poisoned(condition: Term, value: Term) -> bool:
    """Does the value compute what has no derivative just where the condition does not hold?"""
    arguments = [a for a in map(_fragile, _differentiated(value)) if a and not _kept_away(a)]
    compared = [frozenset(_factors(side)) for one in comparisons(condition) for side in one.args]
    return any(
        any(_is_about(a, asked) for asked in asked_names(condition))
        or any(sides and sides <= frozenset(_factors(a)) for sides in compared if len(sides) > 1)
        for a in arguments
    )


def comparisons(condition: Term) -> list[Term]:
    return [p for p in condition.parts() if p.head in ("gt", "ge", "lt", "le", "eq", "ne")]


def _factors(term: Term) -> tuple[Term, ...]:
    return term.args if term.head == PRODUCT else (term,)


def asked_names(condition: Term) -> Iterator[frozenset[Term]]:
    """The names of each comparison of few."""
    for one in comparisons(condition) or [condition]:
        few = names(one)
        if len(few) <= _SCALED:
            yield few


def _is_about(argument: Term, asked: frozenset[Term]) -> bool:
    """Does the condition speak of the argument: of all its names, or of one that the others only scale?"""
    own = names(argument)
    scaled = argument.head == PRODUCT and len(own) <= _SCALED
    return own <= asked or (scaled and not own.isdisjoint(asked))


def _differentiated(term: Term) -> Iterator[Term]:
    """The term and its parts, but for what is only asked."""
    yield term
    for arg in term.args[1:] if term.head == "where" else term.args:
        yield from _differentiated(arg)


def names(term: Term) -> frozenset[Term]:
    return frozenset(part for part in term.parts() if part.head in _OPAQUE and not part.args)


def _kept_away(argument: Term) -> bool:
    """Is it a number, or chosen or clamped before?"""
    if argument.head == SUM and any((part.number or 0) > 0 for part in argument.args):
        return True  # it has an eps of its own
    return not names(argument) or _is_chosen(argument)


def _is_chosen(term: Term) -> bool:
    """Was it taken by a condition or a clamp, and only computed with since?"""
    if _is_cut_at_zero(term):
        return False
    if term.head in ("where", "maximum", "minimum", "branch"):
        return True
    return term.head not in _MIXES and any(map(_is_chosen, term.args))


def _is_cut_at_zero(term: Term) -> bool:
    """Is it cut off at exactly zero, where a root or a logarithm fails, and perhaps above?"""
    if term.head == "minimum":
        return any(map(_is_cut_at_zero, term.args))
    return term.head == "relu" or (term.head == "maximum" and any(a.number == 0 for a in term.args))


def _fragile(step: Term) -> Term | None:
    """The argument of a step that overflows, or has no derivative, at some numbers; none where it cannot be there."""
    if step.head in (
        "log",
        "log2",
        "log10",
        "log1p",
        "arccos",
        "arcsin",
        "arccosh",
        "arctanh",
        "log_ndtr",
    ):
        argument = step.args[0]
        return None if step.head == "log" and positive(argument) else argument
    if step.head in ("exp", "expm1", "cosh", "sinh") and grows(step.args[0]):
        return step.args[0]
    if step.head == POWER:
        to = step.args[1].number
        if to is None or to < 0 or not to.is_integer():
            return None if positive(step.args[0]) else step.args[0]
    return None


def _is_of(x: Term, heads: tuple[str, ...]) -> bool:
    if x.head in heads:
        return grows(x.args[0]) or falls(x.args[0])
    return x.head in _CARRIES and any(_is_of(a, heads) for a in x.args)


def _without_casts(x: Term) -> Term:
    while x.head in ("low", "widened"):
        x = x.args[0]
    return x


def holds(text: str, found: Mapping[str, Term]) -> bool:
    """Does the condition hold of these terms?"""
    return not text or _value(_parsed(text), found)


@functools.cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _value(node: ast.expr, found: Mapping[str, Term]) -> bool:
    match node:
        case ast.BoolOp(op=ast.And()):
            return all(_value(v, found) for v in node.values)
        case ast.BoolOp():
            return any(_value(v, found) for v in node.values)
        case ast.UnaryOp():
            return not _value(node.operand, found)
        case ast.Call(func=ast.Name(id=name)):
            names = [a.id for a in node.args if isinstance(a, ast.Name)]
            return _TABLE[name](*(found[n] for n in names))
        case _:
            raise ValueError(f"no condition: {ast.unparse(node)}")
