"""Arithmetic between arrays: whose shape the result has, where that can be said."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from gradcheck_cli.clues.source_text.computed import together
from gradcheck_cli.clues.source_text.values import (
    Call,
    Computed,
    Constant,
    Dim,
    Narrow,
    Part,
    Rank,
    Scalar,
    Times,
    Value,
    itself,
    whole,
)

_OF_TWO = (
    "maximum", "minimum", "add", "subtract", "sub", "multiply", "mul", "divide", "div", "true_divide",
    "power", "pow", "fmax", "fmin", "clamp_min", "clamp_max", "bias_add",
)  # fmt: skip
_BOUNDS = ("maximum", "minimum", "fmax", "fmin", "clamp_min", "clamp_max")
_REDUCING = (
    "sum", "mean", "max", "min", "amax", "amin", "prod", "var", "std", "logsumexp", "norm",
    "reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_logsumexp", "reduce_variance",
)  # fmt: skip
_NUMBERS = (Dim, Rank, Scalar, Times)


def combined(left: Value, right: Value, plain: Collection[str]) -> Value:
    """The result of `+`, `*` and their like; `plain` are parameters that are single numbers."""
    one, other = _simple(left, plain), _simple(right, plain)
    if isinstance(one, Scalar):
        one, other = other, one
    if isinstance(one, Computed) or isinstance(other, Computed):
        return one if isinstance(other, Scalar) else together(one, other)
    if one is None or other is None:
        return None
    if isinstance(one, Narrow):
        one, other = other, one
    if isinstance(one, Scalar):
        return other
    if isinstance(other, Scalar):
        return replace(one, itself=False) if isinstance(one, Part) else one
    if isinstance(one, Narrow):
        return one if one == other else None
    if isinstance(one, Part) and isinstance(other, Narrow):
        same = (one.path, one.dropped) == (other.path, other.dropped)
    else:
        same = isinstance(one, Part) and isinstance(other, Part) and (
            (one.path, one.dropped) == (other.path, other.dropped)
        )  # fmt: skip
    if same and isinstance(one, Part):
        return replace(one, itself=False)
    return together(one, other)


def call(made: Call, plain: Collection[str]) -> Value:
    """`jnp.maximum(x, 0)`, and reductions whose result broadcasts against the array."""
    if made.name in _OF_TWO and len(made.operands) == 2:
        result = combined(made.operands[0], made.operands[1], plain)
        bounds = made.name in _BOUNDS and any(whole(each) is not None for each in made.operands)
        return replace(result, bounded=True) if bounds and isinstance(result, Part) else result
    first = made.operands[0] if made.operands else None
    if made.name not in _REDUCING or not isinstance(first, Part):
        return None
    kept = [made.keywords.get(name) for name in ("keepdims", "keepdim")]
    if Constant(True) in kept:
        return Narrow(first.path, first.dropped)
    return Scalar() if len(made.operands) == 1 and not made.keywords else None


def _simple(value: Value, plain: Collection[str]) -> Value:
    """The value, where it takes part in arithmetic as an array or as a single number."""
    if isinstance(value, _NUMBERS):
        return Scalar()
    if isinstance(value, Constant):
        return Scalar() if isinstance(value.value, (int, float, complex)) else None
    part = itself(value)
    if part is not None and part.path in plain:
        return Scalar()
    return value if isinstance(value, (Computed, Part, Narrow)) else None
