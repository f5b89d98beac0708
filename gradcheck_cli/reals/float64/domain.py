"""Certified arithmetic in float64 under XLA: one point of a walk, traced and then batched.

What a pair is and how it is computed with stands in `pairs`; what each primitive does with
pairs stands in `tables64`. Whatever this domain cannot certify goes to `Balls`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.reals.float64.pairs import EPS, XLA, Array, Pair, exact
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES
from gradcheck_cli.reals.walk import NoRealMeaning


class Choice(NamedTuple):
    """Which elements a maximum is, and where several are equally large."""

    mask: Array
    tied: Array


class Balls64:
    """The walk of one program. Floats are pairs, booleans three-valued int8, the rest is JAX's own."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        self.doubts = jnp.zeros((), bool)  # a discrete value could not be decided
        self.ties = jnp.zeros((), bool)  # a comparison met two equal numbers
        # Where one slot is the largest of another: which elements it was (SEMANTICS C1).
        self.chosen: dict[tuple[int, int], Choice] = {}

    def inner(self) -> Balls64:
        """A walk of a program inside a step, by these rules and with flags of its own."""
        return Balls64(self.rules)

    # -- what a walk asks -----------------------------------------------------------------

    def constant(self, value: Any) -> Any:
        """A constant of the trace."""
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
            return value
        array = np.asarray(value)
        if array.dtype == bool:
            return jnp.asarray(np.where(array, YES, NO).astype(np.int8))
        if array.dtype.kind in "iu":
            return jnp.asarray(array)
        if array.dtype.kind == "c":
            raise refused("complex")
        wide = array.astype(np.float64)
        if flushed(wide).any():
            raise refused("subnormal constant")
        return XLA.known(wide)

    def kept(self, value: Any) -> Any:
        return value

    def native(self, step: Any, values: Sequence[Any]) -> Sequence[Any]:
        """A step that no float input can reach runs as JAX runs it (SEMANTICS B3)."""
        if any(isinstance(v, Pair) for v in values):
            raise refused(step.name)
        args = [
            self.sure(v) if aval.kind == "b" else v
            for v, aval in zip(values, step.in_avals, strict=True)
        ]
        outs = bound(step, args)
        return [
            self._adopted(out, aval.kind) for out, aval in zip(outs, step.out_avals, strict=True)
        ]

    def _adopted(self, value: Array, kind: str) -> Any:
        if kind == "c":
            raise refused("complex")
        return {"f": XLA.known, "b": tri}.get(kind, lambda v: v)(value)

    # -- doubts ---------------------------------------------------------------------------

    def doubt(self, mask: Array) -> None:
        self.doubts = self.doubts | jnp.any(mask)

    def tied(self, mask: Array) -> None:
        self.ties = self.ties | jnp.any(mask)

    def sure(self, truth: Array) -> Array:
        """Booleans of three-valued ones; an unknown one puts the point in doubt."""
        self.doubt(truth == UNKNOWN)
        return truth == YES

    def joined(self, flags: tuple[Array, Array]) -> None:
        """What an inner walk found out."""
        self.doubt(flags[0])
        self.tied(flags[1])

    @property
    def flags(self) -> tuple[Array, Array]:
        return self.doubts, self.ties

    # -- order ----------------------------------------------------------------------------

    def compare(self, op: str, a: Pair, b: Pair) -> Array:
        truth, same = compared(op, a, b)
        self.tied(same)
        return truth

    def to_integers(self, x: Pair, dtype: Any) -> Array:
        """Truncation, with the point in doubt where two integers are possible."""
        lower, upper = XLA.ends(x)
        first, last = jnp.trunc(lower), jnp.trunc(upper)
        limits = jnp.iinfo(dtype)
        self.doubt(~(first == last) | ~(first >= limits.min) | ~(first <= limits.max))
        return jnp.nan_to_num(first).astype(dtype)


def compared(op: str, a: Pair, b: Pair) -> tuple[Array, Array]:
    """Three-valued truth, and where two finite numbers are exactly equal."""
    a_low, a_high, b_low, b_high = *XLA.ends(a), *XLA.ends(b)
    below, above = a_high < b_low, a_low > b_high
    same = exact(a) & exact(b) & (a.mid == b.mid)
    yes, no = {
        "lt": (below, above | same),
        "le": (below | same, above),
        "gt": (above, below | same),
        "ge": (above | same, below),
        "eq": (same, below | above),
        "ne": (below | above, same),
    }[op]
    return decided(yes, no), same & jnp.isfinite(a.mid)


def decided(yes: Array, no: Array) -> Array:
    """Three-valued truth of what is certain."""
    return jnp.where(yes, YES, jnp.where(no, NO, UNKNOWN)).astype(jnp.int8)


def tri(truth: Array) -> Array:
    return jnp.where(truth, YES, NO).astype(jnp.int8)


def from_integers(values: Array) -> Pair:
    wide = jnp.asarray(values).astype(jnp.float64)
    size = jnp.abs(wide)
    return Pair(wide, jnp.where(size > 2.0**53, size * (2 * EPS), 0.0))


def from_tri(truth: Array) -> Pair:
    wide = truth.astype(jnp.float64) / 2
    return Pair(wide, jnp.where(truth == UNKNOWN, 0.5, 0.0))


def bound(step: Any, values: Sequence[Any], **changed: Any) -> Sequence[Any]:
    """The primitive itself on these values."""
    outs = step.eqn.primitive.bind(*values, **{**step.params, **changed})
    return outs if step.eqn.primitive.multiple_results else [outs]


def flushed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Subnormal numbers, which XLA may take for zero."""
    return np.asarray((values != 0) & (np.abs(values) < 2.0**-1022))


def refused(name: str) -> Exception:
    return NoRealMeaning(name)
