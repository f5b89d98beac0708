"""A walk in plain float64: what small changes of a program make of its results, quickly.

Nothing is enclosed. The walk is metered: a changed loop may never end, a changed shape may explode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.reals.balls import order
from gradcheck_cli.reals.balls.domain import Domain, Flags
from gradcheck_cli.reals.floats.functions import BINARY, NEUTRAL, SPECIAL, UNARY
from gradcheck_cli.reals.floats.rules import RULES
from gradcheck_cli.reals.rules import Rule
from gradcheck_cli.reals.three_valued import NO, YES
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]


class OverBudget(Exception):
    """A walk makes more values, or larger ones, than it may."""


@dataclass(slots=True)
class Meter:
    """The values that a walk has made and the numbers in them, and the most that it may make."""

    most_values: int
    most_numbers: int  # in one value
    values: int = 0
    numbers: int = 0
    largest: int = 0

    def count(self, size: int) -> None:
        self.values += 1
        self.numbers += size
        self.largest = max(self.largest, size)
        if self.values > self.most_values or size > self.most_numbers:
            raise OverBudget


class Floats(Domain):
    """One walk's worth of float64 arithmetic; numbers are what numpy makes of them."""

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        batch: int,
        meter: Meter,
        *,
        rules: Mapping[str, Rule] = RULES,
        flags: Flags | None = None,
        rows: Array | None = None,
    ) -> None:
        super().__init__(batch, rules=rules, flags=flags, rows=rows)
        self.meter = meter

    def _part(self, rows: Array) -> Floats:
        return Floats(self.batch, self.meter, rules=self.rules, flags=self.flags, rows=rows)

    def holds(self, value: Any) -> bool:
        return isinstance(value, np.ndarray) and value.dtype.kind in "fc"

    def kept(self, value: Any) -> Any:
        self.meter.count(getattr(value, "size", 1))
        return value

    # -- kinds ------------------------------------------------------------------------

    def _constant(self, array: Array) -> Array:
        return array.astype(np.float64)

    def from_integers(self, values: Array) -> Array:
        return np.asarray(values, np.float64)

    def from_tri(self, tri: Array) -> Array:
        return np.asarray(tri == YES, np.float64)

    def to_integers(self, x: Array, dtype: Any) -> Array:
        limits = np.iinfo(dtype)
        return np.asarray(np.clip(np.trunc(np.nan_to_num(x)), limits.min, limits.max), dtype)

    def to_complex(self, real: Array, imaginary: Array | None = None) -> Array:
        return real.astype(np.complex128) if imaginary is None else real + 1j * imaginary

    # -- functions --------------------------------------------------------------------

    def unary(self, op: str, x: Array) -> Array:
        return np.asarray(_named(UNARY, op)(x))

    def complex_unary(self, op: str, x: Array) -> Array:
        return self.unary(op, x)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        return np.asarray(_named(BINARY, op)(a, b))

    def complex_binary(self, op: str, a: Array, b: Array) -> Array:
        return self.binary(op, a, b)

    def special(self, op: str, values: Sequence[Array]) -> Array:
        return np.asarray(_named(SPECIAL, op)(*values), np.float64)

    def integer_pow(self, kind: str, x: Array, n: int) -> Array:
        return np.asarray(x ** float(n))

    # -- choice -----------------------------------------------------------------------

    def compare(self, op: str, a: Array, b: Array) -> Array:
        return np.where(order.EXACT[op](a, b), YES, NO).astype(np.int8)

    def is_finite(self, x: Array) -> Array:
        return np.where(np.isfinite(x), YES, NO).astype(np.int8)

    def _union(self, a: Array, b: Array) -> Array:
        return a

    # -- reductions -------------------------------------------------------------------

    def reduce(self, op: str, aval: Any, x: Array, axes: tuple[int, ...]) -> Array:
        if not self.holds(x):
            return self.integer_reduce(op, x, axes)
        ufunc = _named(BINARY, op)
        initial = NEUTRAL[op] if any(x.shape[a] == 0 for a in axes) else None
        options = {} if initial is None else {"initial": initial}
        return np.asarray(ufunc.reduce(x, axis=axes, **options))

    def accumulate(self, op: str, x: Array, axis: int) -> Array:
        if not self.holds(x):
            return self.integer_accumulate(op, x, axis)
        return np.asarray(_named(BINARY, op).accumulate(x, axis=axis))

    def arg(self, op: str, x: Array, axis: int) -> Array:
        return np.asarray(np.argmax(x, axis) if op == "max" else np.argmin(x, axis))

    def sort(self, values: list[Array], axis: int, keys: int, kinds: Sequence[str]) -> list[Array]:
        batch = max(v.shape[0] for v in values)
        full = [np.moveaxis(np.broadcast_to(v, (batch, *v.shape[1:])), axis, -1) for v in values]
        places = np.lexsort(tuple(reversed(full[:keys])), axis=-1)
        return [np.moveaxis(np.take_along_axis(v, places, -1), -1, axis) for v in full]

    # -- products ---------------------------------------------------------------------

    def matmul(self, aval: Any, a: Array, b: Array) -> Array:
        return np.asarray(np.matmul(a, b))

    def algebra(self, step: Any) -> Any:
        """Factorizations that numpy does not have have no rule here."""
        raise NoRealMeaning(step.name)

    def dft(self, x: Array, axis: int, *, inverse: bool) -> Array:
        return np.fft.ifft(x, axis=axis) if inverse else np.fft.fft(x, axis=axis)

    def neutral(self, op: str, aval: Any) -> Any:
        if aval.kind in "fc":
            return NEUTRAL[op]
        if op in ("max", "min") and aval.kind == "i":
            limits = np.iinfo(aval.dtype)
            return limits.min if op == "max" else limits.max
        return {"add": 0, "mul": 1, "max": NO, "min": YES}[op]

    def combine_numbers(self, op: str, old: Any, new: Any) -> Any:
        return BINARY[op](old, new)

    def overlap_rows(self, before: Sequence[Array], after: Sequence[Array]) -> Array:
        """No condition is ever open in floats: nothing has to settle."""
        return np.zeros(len(after[0]), bool)


def _named(table: Mapping[str, Any], op: str) -> Any:
    if op not in table:
        raise NoRealMeaning(op)
    return table[op]
