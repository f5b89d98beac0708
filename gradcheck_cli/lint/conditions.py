"""What a pattern may ask of the terms that its names stand for: `grows(x) and not drawn(x)`.

A condition is one function and one line in the table.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Mapping

from gradcheck_cli.lint.ranges import is_shifted, range_of
from gradcheck_cli.lint.terms import NAME, POWER, PRODUCT, SUM, Term, is_negated

_SCALED = 2  # names in `x / alpha`
_OVERFLOW, _VANISH = 88.0, -88.0
_ONE_BELOW = 1 - 2.0**-25  # rounds to 1 in float32
_OPAQUE = (NAME, "call", "attribute", "index", "integer", "each", "tuple", "lambda")
_OF_LOGITS = ("sigmoid", "softmax")
# What keeps a probability one, on the way from the function that made it.
_CARRIES = (SUM, PRODUCT, "maximum", "minimum", "index", "where", "gather", "max", "sum", "mean", "take_along_axis", "boolean_mask", "low", "widened")  # fmt: skip
_PROBABILITY = re.compile(r"(?:^|_)(?:p|q|probs?|probabilit(?:y|ies)|preds?|y_?hat|y_?pred|predictions?|softmax\w*|sigmoid\w*|posteriors?|y_?conv|y_)\d*(?:$|_|#)", re.IGNORECASE)  # fmt: skip
_GRADIENT = re.compile(r"(?:^|_)g(?:rad(?:ient)?s?)?(?:#|$)")
_DRAWS = ("rand", "uniform", "random_uniform", "rand_like", "random_sample", "random")


def grows(x: Term) -> bool:
    """Can it be so large that its exponential overflows?"""
    return x.number is None and range_of(x).high > _OVERFLOW


def falls(x: Term) -> bool:
    """Can it be so low that its exponential is nothing?"""
    return x.number is None and range_of(x).low < _VANISH


def near_zero(x: Term) -> bool:
    """Can it be nearly zero, and is it a float?"""
    return x.number is None and x.head != "integer" and range_of(x).has(0)


def free(x: Term) -> bool:
    """Is it no number that is written there?"""
    return x.number is None


def opaque(x: Term) -> bool:
    """Is it a name, or what some other function gives?"""
    return x.head in _OPAQUE


def given(x: Term) -> bool:
    """Is it a name of which nothing is known?"""
    return x.head == NAME


def reaches_zero(x: Term) -> bool:
    """Is it exactly zero at some inputs, by what it is made of, and never below?"""
    if x.head in ("norm", "var", "std", "relu"):
        return True
    if x.head in ("sum", "mean", "max", "min", "index", "low", "widened", "double", "each"):
        return reaches_zero(x.args[0])
    test = _REACHES.get(x.head)
    return test is not None and test(x)


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


def may_vanish(x: Term) -> bool:
    """Can it be zero, for all that is seen?"""
    return x.number is None and range_of(x).has(0) and not guarded(x)


def guarded(x: Term) -> bool:
    """Was it chosen by a condition, or kept from something?"""
    return any(part.head in ("where", "branch") for part in x.parts())


def may_be_zero(x: Term) -> bool:
    """Is nothing known that keeps it from zero?"""
    return not opaque(x) and range_of(x).has(0)


def positive(x: Term) -> bool:
    return range_of(x).low > 0


def of_logits(x: Term) -> bool:
    """Is it a sigmoid or a softmax, or one that was clipped, moved or picked from?"""
    return _is_of(x, _OF_LOGITS)


def of_softmax(x: Term) -> bool:
    return _is_of(x, ("softmax",))


def of_sigmoid(x: Term) -> bool:
    return _is_of(x, ("sigmoid",))


def drawn(x: Term) -> bool:
    """Is it a uniform random number, which may be exactly zero?"""
    bare = _without_casts(x)
    if bare.head in (*_DRAWS,):
        return range_of(bare).low <= 0
    name = str(bare.value).rpartition(".")[2] if bare.head in ("call", NAME) else ""
    return name.partition("#")[0] in _DRAWS


def probability(x: Term) -> bool:
    """Is it called a probability?"""
    bare = _without_casts(x)
    if bare.head == "index":
        bare = bare.args[0]
    return bare.head in (NAME, "attribute") and _PROBABILITY.search(str(bare.value)) is not None


def rounds_to_one(x: Term) -> bool:
    """Is it a number below 1 that is 1 in float32?"""
    value = x.number
    return value is not None and _ONE_BELOW <= value < 1


def low(x: Term) -> bool:
    """Is it held in half precision?"""
    if x.head in ("widened", "double", "integer"):
        return False
    return x.head == "low" or any(low(a) for a in x.args)


def lost_in_half(x: Term) -> bool:
    """Is it a number that is zero in float16?"""
    return x.number is not None and 0 < abs(x.number) < 2.0**-25


def fractional(x: Term) -> bool:
    """Is it an exponent between 0 and 1?"""
    return x.number is not None and 0 < x.number < 1


def negative_power(x: Term) -> bool:
    return x.number is not None and x.number < 0


def within_ends(x: Term) -> bool:
    """Does it stay away from 1 and -1, between them?"""
    r = range_of(x)
    return r.low > -1 and r.high < 1


def whole(x: Term) -> bool:
    return x.number is not None and x.number.is_integer()


def same(a: Term, b: Term) -> bool:
    return a == b


def unshifted(x: Term) -> bool:
    """Was no maximum taken from it, and can its exponential overflow or vanish?"""
    return not is_shifted(x) and (grows(x) or falls(x))


def small(x: Term) -> bool:
    """Is it a small number, as an eps is?"""
    return x.number is not None and 0 < x.number <= 1e-3


def small_integer(x: Term) -> bool:
    """Is it of one or two bytes, as far as its functions keep that?"""
    if (
        x.head in ("mean", "std", "var", "integer", "double", "widened", "low", "sum")
        or x.number is not None
    ):
        return False
    return x.head == "small" or (bool(x.args) and small_integer(x.args[0]))


def shares(a: Term, b: Term) -> bool:
    """Are both made of one name: is the one zero where the other is?"""
    return not _names(a).isdisjoint(_names(b))


def squares(x: Term) -> bool:
    inner = x.args[0] if x.head == "each" else x
    return inner.head == POWER and inner.args[1].number == 2


def far(x: Term) -> bool:
    """Can it be so large that nothing of a normal tail is left?"""
    return x.number is None and range_of(x).high > 5


def inside(x: Term) -> bool:
    """Is it never beyond 1 or -1?"""
    r = range_of(x)
    return r.low >= -1 and r.high <= 1


def distance(x: Term) -> bool:
    """Is it a difference of two terms?"""
    return x.head == SUM and len(x.args) == 2 and sum(map(is_negated, x.args)) == 1


def poisoned(condition: Term, value: Term) -> bool:
    """Does the value compute what has no derivative just where the condition does not hold?"""
    arguments = [a for a in map(_fragile, _differentiated(value)) if a and not _kept_away(a)]
    return any(_is_about(a, asked) for asked in _asked(condition) for a in arguments)


def _asked(condition: Term) -> Iterator[frozenset[Term]]:
    """The names of each comparison of few."""
    comparisons = [p for p in condition.parts() if p.head in ("gt", "ge", "lt", "le", "eq", "ne")]
    for one in comparisons or [condition]:
        names = _names(one)
        if len(names) <= _SCALED:
            yield names


def _is_about(argument: Term, asked: frozenset[Term]) -> bool:
    """Does the condition speak of the argument: of all its names, or of one that the others only scale?"""
    names = _names(argument)
    scaled = argument.head == PRODUCT and len(names) <= _SCALED
    return names <= asked or (scaled and not names.isdisjoint(asked))


def _differentiated(term: Term) -> Iterator[Term]:
    """The term and its parts, but for what is only asked."""
    yield term
    for arg in term.args[1:] if term.head == "where" else term.args:
        yield from _differentiated(arg)


def _names(term: Term) -> frozenset[Term]:
    return frozenset(part for part in term.parts() if part.head in _OPAQUE and not part.args)


def _kept_away(argument: Term) -> bool:
    """Is it a number, or chosen or clamped before?"""
    guards = ("where", "maximum", "minimum", "branch")
    if argument.head == SUM and any((part.number or 0) > 0 for part in argument.args):
        return True  # it has an eps of its own
    return not _names(argument) or any(part.head in guards for part in argument.parts())


def _fragile(step: Term) -> Term | None:
    """The argument of a step that overflows, or has no derivative, at some numbers; none where it cannot be there."""
    if step.head in ("log", "log2", "log10", "log1p", "acos", "asin", "acosh", "atanh", "log_ndtr"):
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


_TABLE: dict[str, Callable[..., bool]] = {
    f.__name__: f
    for f in (
        grows, falls, near_zero, free, opaque, reaches_zero, may_be_zero, positive, of_logits, of_softmax, of_sigmoid, drawn,
        probability, rounds_to_one, low, lost_in_half, fractional, negative_power, within_ends, whole, same, distance, poisoned, guarded, given, shares, of_gradients, unshifted, small, small_integer, squares, far, inside, may_vanish,
    )
}  # fmt: skip


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
