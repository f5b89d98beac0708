"""Is the rule a constant times the truth? Sign, factor and zero, said in words."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from flint import arb

from gradcheck_cli.inputs.names import is_data
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.measure.formula_gap import ratio

_CHOSEN = ("binary", "signs")  # numbers that nobody learns
_NAMED = {
    "2": arb(2),
    "1/2": arb(1) / 2,
    "3": arb(3),
    "1/3": arb(1) / 3,  # a ball: no float is a third
    "4": arb(4),
    "1/4": arb(1) / 4,
    "-2": arb(-2),
    "-1/2": arb(-1) / 2,
}


def describe_factor(
    truth: Sequence[arb],
    formula: Sequence[arb],
    sizes: Collection[int] = (),
    settings: Mapping[str, float] | None = None,
) -> str | None:
    """ "its sign is reversed", "it is 2 times the truth", "it is zero"; None if it is none of these.

    `sizes` are numbers of elements in the call: a factor of that size is one of a mean. `settings` are plain
    arguments: a factor that is one of them, or one over it, is that where it is another number, too.
    """
    if all(f.is_zero() for f in formula):
        return "it is zero everywhere, the truth is not"
    factor = ratio(truth, formula)
    if factor is None:
        return None
    if factor.overlaps(arb(1)):
        return None  # right where it could be compared
    if factor.overlaps(arb(-1)):
        return "its sign is reversed"
    for name, value in _NAMED.items():
        if factor.overlaps(value):
            return f"it is {name} times the truth{_as_size(factor, sizes) or _as_setting(factor, settings)}"
    number = f"{float(factor.mid()):.6g}"
    return (
        f"it is {number} times the truth{_as_size(factor, sizes) or _as_setting(factor, settings)}"
    )


def size_of(factor: arb, sizes: Collection[int]) -> int | None:
    """The size that a factor, or one over it, is; none where it is another number."""
    return next((n for n in sizes if factor.overlaps(arb(n)) or factor.overlaps(arb(1) / n)), None)


def is_a_share(factor: arb, sizes: Collection[int]) -> bool:
    """Is it one size of the call over another: three quarters, where three of four rows count?"""
    return any(abs(factor).overlaps(arb(n) / d) for n in sizes for d in sizes if n != d)


def setting_of(factor: arb, settings: Mapping[str, float]) -> str:
    """The argument that a factor is, or one over it, but for the sign: `1/scale`; nothing where it is none."""
    for name, number in settings.items():
        if abs(factor).overlaps(abs(arb(number))):
            return name
        if abs(factor).overlaps(1 / abs(arb(number))):
            return f"1/{name}"
    return ""


def _as_setting(factor: arb, settings: Mapping[str, float] | None) -> str:
    named = setting_of(factor, settings or {})
    return f" ({float(abs(factor).mid()):.6g} is `{named}` here)" if named else ""


def _as_size(factor: arb, sizes: Collection[int]) -> str:
    size = size_of(factor, sizes)
    if size is None:
        return _as_root(factor, sizes)
    what = "its 1/n is missing" if factor > 1 else "it has a 1/n too many"
    return f" ({size} is a number of elements here: for a mean, {what})"


def _as_root(factor: arb, sizes: Collection[int]) -> str:
    size = size_of(factor**2, [n for n in sizes if math.isqrt(n) ** 2 != n])
    if size is None:
        return ""
    what = "a 1/√n is missing" if factor > 1 else "it has a 1/√n too many"
    return f" (the root of {size}, a number of elements here: {what})"


def leaves_out_data(leaf: Leaf, formula: Sequence[arb]) -> bool:
    """Is the formula zero everywhere for an argument that is data by its name (labels, targets), or is 0 or 1, 1 or -1?"""
    chosen = leaf.domain is not None and leaf.domain.bounds.family in _CHOSEN
    return (chosen or is_data(leaf.path)) and all(f.is_zero() for f in formula)
