"""What all number domains share: points, doubts, integers, three-valued truth.

A domain's numbers are the elements of numpy arrays of its own dtype, so that whatever
only moves numbers (the tables of structure and indexing) serves every domain.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np

from gradcheck_cli.reals.balls import order
from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES
from gradcheck_cli.reals.walk import NoRealMeaning

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Flags:
    """What a walk found out about each point besides its values."""

    ties: Array  # a comparison met two equal numbers
    doubts: Array  # a discrete value could not be decided at this precision
    endless: Array  # a loop went on longer than any float loop would


class Domain(ABC):
    """One walk's worth of arithmetic over some points."""

    dtype: Any  # of the arrays that hold numbers

    def __init__(
        self,
        batch: int,
        *,
        rules: Mapping[str, Rule],
        flags: Flags | None = None,
        rows: Array | None = None,
    ) -> None:
        self.batch = batch
        self.rules = rules
        self.flags = flags or Flags(*(np.zeros(batch, bool) for _ in range(3)))
        self._rows = np.arange(batch) if rows is None else rows

    # -- what a domain gives ----------------------------------------------------------

    @abstractmethod
    def _part(self, rows: Array) -> Self:
        """This walk for some rows, with the flags of the whole."""

    @abstractmethod
    def _constant(self, array: Array) -> Array:
        """Float constants as numbers."""

    @abstractmethod
    def from_integers(self, values: Array) -> Array: ...

    @abstractmethod
    def from_tri(self, tri: Array) -> Array: ...

    @abstractmethod
    def to_complex(self, real: Array, imaginary: Array | None = None) -> Array: ...

    @abstractmethod
    def compare(self, op: str, a: Array, b: Array) -> Array: ...

    @abstractmethod
    def _union(self, a: Array, b: Array) -> Array:
        """The smallest numbers that hold both."""

    # -- points -----------------------------------------------------------------------

    def holds(self, value: Any) -> bool:
        """Are these numbers (not integers, truth values or keys)?"""
        return isinstance(value, np.ndarray) and value.dtype == self.dtype

    def view(self, rows: Array, batch: int) -> Self:
        """This walk for some of its points."""
        whole = batch == 1 and len(self._rows) > 1
        return self._part(self._rows if whole else self._rows[rows])

    def kept(self, value: Any) -> Any:
        """A step's result as later steps see it."""
        return value

    def doubt_all(self) -> None:
        self.flags.doubts[self._rows] = True

    def give_up(self) -> None:
        """A loop that does not end: more bits will not help."""
        self.flags.endless[self._rows] = True

    def _flag(self, flags: Array, mask: Array) -> None:
        hit: Array = np.any(mask.reshape(mask.shape[0], -1), axis=1)
        if hit.any():
            flags[self._rows if len(hit) == 1 else self._rows[hit]] = True

    # -- constants and kinds ----------------------------------------------------------

    def constant(self, value: Any) -> Any:
        """A constant of the trace, with a batch axis."""
        if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.dtypes.extended):
            return value[None]
        array = np.asarray(value)
        if array.dtype == jax.dtypes.float0:  # it holds no numbers: nothing comes of it
            array = np.zeros(array.shape)
        if array.dtype == bool:
            return np.where(array, YES, NO).astype(np.int8)[None]
        if array.dtype.kind in "iu":
            return array[None]
        if array.dtype.kind == "c":
            return self.to_complex(self.constant(array.real), self.constant(array.imag))
        return self._constant(array)[None]

    def known(self, tri: Array) -> Array:
        """Booleans of three-valued ones; unknown ones put their points in doubt."""
        self._flag(self.flags.doubts, tri == UNKNOWN)
        return np.asarray(tri == YES)

    def as_kind(self, target: str, source: str, value: Array) -> Array:
        """Operands of one product in the kind of its result."""
        if target == "c":
            return value if source == "c" else self.to_complex(self.as_kind("f", source, value))
        if source == "b":
            return self.from_tri(value) if target == "f" else self.known(value).astype(np.int64)
        return self.from_integers(value) if (target, source) == ("f", "i") else value

    def _zeros(self, x: Array) -> Array:
        return self.from_integers(np.zeros((x.shape[0],) + (1,) * (x.ndim - 1), int))

    def nonzero(self, x: Array) -> Array:
        return self.compare("ne", x, self._zeros(x))

    def sign_bits(self, x: Array, dtype: Any) -> Array:
        """-1 below zero, 0 elsewhere, as a shift of a float's bits gives it."""
        return np.where(self.known(self.compare("lt", x, self._zeros(x))), -1, 0).astype(dtype)

    # -- integers and truth -------------------------------------------------------------

    def integer_unary(self, op: str, step: Any, x: Array) -> Array:
        fn = _INTEGER_UNARY.get(op)
        return np.asarray(fn(x) if fn else self.native(step, [x])[0])

    def integer_binary(self, op: str, step: Any, a: Array, b: Array) -> Array:
        fn = _INTEGER_BINARY.get(op)
        with np.errstate(over="ignore"):
            return np.asarray(fn(a, b) if fn else self.native(step, [a, b])[0])

    def combine(self, op: str, old: Any, new: Any) -> Any:
        """Scattered writes: of numbers, and of integers, as `bincount` counts."""
        if op == "set":
            return new
        if isinstance(new, np.integer | np.ndarray) and new.dtype.kind in "iu":
            return _INTEGER_BINARY[op](old, new)
        return self.combine_numbers(op, old, new)

    @abstractmethod
    def combine_numbers(self, op: str, old: Any, new: Any) -> Any: ...

    def integer_reduce(self, op: str, x: Array, axes: tuple[int, ...]) -> Array:
        return np.asarray(_INTEGER_REDUCE[op].reduce(x, axis=axes), dtype=x.dtype)

    def integer_accumulate(self, op: str, x: Array, axis: int) -> Array:
        return np.asarray(_INTEGER_REDUCE[op].accumulate(x, axis=axis), dtype=x.dtype)

    def compare_exact(self, op: str, step: Any, a: Array, b: Array) -> Array:
        """Integers and booleans (the latter in three values)."""
        out = np.where(order.EXACT[op](a, b), YES, NO).astype(np.int8)
        if step.in_avals[0].kind == "b":
            out = np.where((a == UNKNOWN) | (b == UNKNOWN), UNKNOWN, out).astype(np.int8)
        return out

    # -- choice -------------------------------------------------------------------------

    def select(self, kind: str, which: Array, no: Array, yes: Array) -> Array:
        which, no, yes = np.broadcast_arrays(which, no, yes)
        out = np.where(which == YES, yes, no)
        open_ = which == UNKNOWN
        if not open_.any():
            return out
        if kind in "fc":
            out[open_] = self.union(no[open_], yes[open_])
        elif kind == "b":
            out[open_] = np.where(no[open_] == yes[open_], no[open_], UNKNOWN)
        else:
            self._flag(self.flags.doubts, open_ & (no != yes))
        return out

    def union(self, a: Array, b: Array) -> Array:
        if self.holds(a):
            return self._union(a, b)
        if a.dtype == np.int8:
            return np.where(a == b, a, UNKNOWN).astype(np.int8)
        if not np.array_equal(a, b):
            self.doubt_all()
        return a

    # -- the rest -----------------------------------------------------------------------

    def native(self, step: Any, values: list[Any]) -> list[Any]:
        """A step that no float input can reach runs as JAX runs it (SEMANTICS B3)."""
        if step.subs or any(map(self.holds, values)):
            raise NoRealMeaning(step.name)
        batch = max((v.shape[0] for v in values), default=1)
        results = []
        for i in range(batch):
            row = [v[0] if v.shape[0] == 1 else v[i] for v in values]
            args = [
                self.known(v[None])[0] if aval.kind == "b" else v
                for v, aval in zip(row, step.in_avals, strict=True)
            ]
            with jax.enable_x64(True):  # 64-bit steps stay what they are
                outs = step.eqn.primitive.bind(*map(on_device, args), **step.params)
            results.append(outs if step.eqn.primitive.multiple_results else [outs])
        columns = zip(*results, strict=True)
        return [self._stacked(list(column)) for column in columns]

    def _stacked(self, column: Sequence[Any]) -> Any:
        parts = [self.constant(value) for value in column]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def on_device(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else jax.numpy.asarray(value)


_INTEGER_REDUCE: dict[str, Any] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.minimum,
    "or": np.maximum,
}
_INTEGER_UNARY: dict[str, Any] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": lambda x: x,
    "ceil": lambda x: x,
}
_INTEGER_BINARY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}
