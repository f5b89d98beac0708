"""The truth: arrays of python-flint balls.

Arrays are numpy object arrays, so whole-array operations run in C loops and a
ball that is only moved stays the same object: identity of values is identity
of objects (SEMANTICS C1).
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from flint import acb, acb_mat, arb, arb_mat

from gradcheck_cli.reals.balls import complexes, order, scalar, special
from gradcheck_cli.reals.balls.domain import Domain, Flags, on_device
from gradcheck_cli.reals.balls.matrices import Algebra
from gradcheck_cli.reals.rules import RULES, Rule
from gradcheck_cli.reals.rules.rule import elements
from gradcheck_cli.reals.three_valued import NO, UNKNOWN, YES

Array = np.ndarray[Any, Any]

# A loop's state whose balls are wider than this has not settled, it has been lost.
_SETTLED = 40

# Below this many products, numpy's object loop beats building flint matrices.
_SMALL_PRODUCT = 64


# By the identity of the array that they were made of, for as long as it lives.
_CONSTANTS: dict[int, Any] = {}


class Balls(Domain):
    """One walk's worth of ball arithmetic, at the precision that flint's context holds."""

    dtype = np.dtype(object)

    def __init__(
        self,
        batch: int,
        *,
        widen: bool = False,
        points: bool = False,
        rules: Mapping[str, Rule] = RULES,
        flags: Flags | None = None,
        rows: Array | None = None,
    ) -> None:
        super().__init__(batch, rules=rules, flags=flags, rows=rows)
        self.widen = widen
        self.points = points
        self._memo: dict[str, dict[int, Any]] = {}  # by the operand's id, while it is alive
        self._alive: list[list[Any]] = []

    def _part(self, rows: Array) -> Balls:
        return Balls(
            self.batch,
            widen=self.widen,
            points=self.points,
            rules=self.rules,
            flags=self.flags,
            rows=rows,
        )

    def kept(self, value: Any) -> Any:
        """With `points`, without its radius."""
        if self.points and self.holds(value):
            return np.asarray(_MIDDLES(value), dtype=object)
        return value

    # -- constants and casts ----------------------------------------------------

    def constant(self, value: Any) -> Any:
        """Balls of a constant: exact ones do not depend on the precision, and are built once."""
        if self.widen or not isinstance(value, (np.ndarray, jax.Array)):
            return super().constant(value)
        key = id(value)
        if key not in _CONSTANTS:
            _CONSTANTS[key] = super().constant(value)
            weakref.finalize(value, _CONSTANTS.pop, key, None)
        return _CONSTANTS[key]

    def _constant(self, array: Array) -> Array:
        """Exact numbers, or ±½ ulp around rounded ones if widened."""
        wide = array.astype(np.float64)
        return _widened(array, wide) if self.widen else exact(wide)

    def from_integers(self, values: Array) -> Array:
        values = np.asarray(values)
        return elements([arb(int(v)) for v in values.reshape(-1)], values.shape)

    def from_tri(self, tri: Array) -> Array:
        table = {NO: scalar.ZERO, UNKNOWN: scalar.ZERO.union(scalar.ONE), YES: scalar.ONE}
        return elements([table[int(v)] for v in tri.reshape(-1)], tri.shape)

    def to_integers(self, x: Array, dtype: Any) -> Array:
        """Truncation, with the point in doubt where two integers are possible."""
        out = np.zeros(x.size, dtype=dtype)
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        doubt = np.zeros(x.size, bool)
        for i, ball in enumerate(x.reshape(-1)):
            if not ball.is_finite():
                doubt[i] = True
                continue
            ends = (int(float(_truncated(b))) for b in (ball.lower(), ball.upper()))
            low, high = (min(max(n, least), most) for n in ends)  # XLA stops at the limits
            out[i] = low
            doubt[i] = low != high
        self._flag(self.flags.doubts, doubt.reshape(x.shape))
        return out.reshape(x.shape)

    # -- elementwise ------------------------------------------------------------

    def unary(self, op: str, x: Array) -> Array:
        """A function of each ball: equal operands give one and the same ball."""
        return self._mapped(op, scalar.UNARY[op], x)

    def complex_unary(self, op: str, x: Array) -> Array:
        """A function of each complex ball; some are real."""
        return self._mapped(f"complex {op}", complexes.UNARY.get(op) or complexes.PARTS[op], x)

    def to_complex(self, real: Array, imaginary: Array | None = None) -> Array:
        """Complex balls from their parts, or from real balls alone."""
        if imaginary is None:
            return np.asarray(_AS_COMPLEX(real), dtype=object)
        return np.asarray(_COMPLEX(real, imaginary), dtype=object)

    def special(self, op: str, values: Sequence[Array]) -> Array:
        """A special function of several arguments."""
        function = _ufunc(special.SPECIAL[op], len(values))
        with np.errstate(all="ignore"):  # flags that flint's own float steps leave behind
            return np.asarray(function(*values), dtype=object)

    def _all(self, name: str, fn: Any, flat: list[Any]) -> list[Any]:
        """Flint's own function where all is finite; the special cases only where something is not."""
        plain = scalar.PLAIN.get(name)
        if plain is not None:
            out = list(map(plain, flat))
            if all(map(arb.is_finite, out)):
                return out
        return list(map(fn, flat))

    def _mapped(self, name: str, fn: Any, x: Array) -> Array:
        memo = self._memo.setdefault(name, {})
        flat = x.reshape(-1).tolist()
        keys = list(map(id, flat))
        interned = memo.keys() & keys if memo else ()
        if interned:
            new = [ball for ball, key in zip(flat, keys, strict=True) if key not in interned]
            memo.update(zip(map(id, new), self._all(name, fn, new), strict=True))
            self._alive.append(new)
            return elements([memo[key] for key in keys], x.shape)
        out, before = self._all(name, fn, flat), len(memo)
        memo.update(zip(keys, out, strict=True))
        self._alive.append(flat)
        if len(memo) < before + len(keys):  # some came twice: one result for each
            out = [memo[key] for key in keys]
        return elements(out, x.shape)

    def binary(self, op: str, a: Array, b: Array) -> Array:
        for one, other in ((a, b), (b, a)) if op == "mul" else ():
            if _is_one(one) and self.holds(other):  # the very same numbers, not new balls
                return np.array(np.broadcast_arrays(other, one)[0])
        return np.asarray(_binary(op)(a, b), dtype=object)

    def complex_binary(self, op: str, a: Array, b: Array) -> Array:
        ufunc = _COMPLEX_UFUNCS.get(op) or _ufunc(complexes.BINARY[op], 2)
        return np.asarray(ufunc(a, b), dtype=object)

    def integer_pow(self, kind: str, x: Array, n: int) -> Array:
        power = complexes.integer_power if kind == "c" else scalar.integer_power
        return elements([power(b, n) for b in x.reshape(-1)], x.shape)

    # -- comparison and choice ----------------------------------------------------

    def compare(self, op: str, a: Array, b: Array) -> Array:
        out, ties = order.compare(op, *np.broadcast_arrays(a, b))
        self._flag(self.flags.ties, ties)
        return out

    def is_finite(self, x: Array) -> Array:
        """True for every real; infinite constants are points of their own."""
        out = [NO if _infinite(b) else YES for b in x.reshape(-1)]
        return np.array(out, np.int8).reshape(x.shape)

    def _union(self, a: Array, b: Array) -> Array:
        return np.asarray(_UNION(a, b), dtype=object)

    # -- reductions ---------------------------------------------------------------

    def reduce(self, op: str, aval: Any, x: Array, axes: tuple[int, ...]) -> Array:
        if not self.holds(x):
            return self.integer_reduce(op, x, axes)
        empty = any(x.shape[a] == 0 for a in axes)
        out = x
        for axis in sorted(axes, reverse=True):
            if empty:
                out = np.full(
                    tuple(n for d, n in enumerate(out.shape) if d != axis),
                    scalar.NEUTRAL[op],
                    object,
                )
            else:
                out = _binary(op).reduce(out, axis=axis)
        return np.asarray(out, dtype=object).reshape(x.shape[0], *aval.shape)

    def accumulate(self, op: str, x: Array, axis: int) -> Array:
        if not self.holds(x):
            return self.integer_accumulate(op, x, axis)
        return np.asarray(_binary(op).accumulate(x, axis=axis), dtype=object)

    def arg(self, op: str, x: Array, axis: int) -> Array:
        """First place of the largest (smallest); in doubt where two may be."""
        if not self.holds(x):
            return np.asarray(np.argmax(x, axis) if op == "max" else np.argmin(x, axis))
        place, doubts, ties = order.extreme(x, axis, 1 if op == "max" else -1)
        self._flag(self.flags.doubts, doubts)
        self._flag(self.flags.ties, ties)
        return place

    def sort(self, values: list[Array], axis: int, keys: int, kinds: Sequence[str]) -> list[Array]:
        batch = max(v.shape[0] for v in values)
        full = [np.broadcast_to(v, (batch, *v.shape[1:])) for v in values]
        done, doubts, ties = order.sort(full, axis, keys, kinds)
        self._flag(self.flags.doubts, doubts)
        self._flag(self.flags.ties, ties)
        return done

    # -- products -----------------------------------------------------------------

    def matmul(self, aval: Any, a: Array, b: Array) -> Array:
        if aval.kind not in "fc":
            return np.asarray(np.matmul(a, b))
        matrix = arb_mat if aval.kind == "f" else acb_mat
        rows, inner, columns = a.shape[1], a.shape[2], b.shape[2]
        if not inner or not rows or not columns:
            return np.full((len(a), rows, columns), scalar.ZERO, object)
        if rows * inner * columns <= _SMALL_PRODUCT:
            return np.stack(
                [(x[:, :, None] * y[None]).sum(axis=1) for x, y in zip(a, b, strict=True)]
            )
        out = [
            (
                matrix(rows, inner, x.reshape(-1).tolist())
                * matrix(inner, columns, y.reshape(-1).tolist())
            ).entries()
            for x, y in zip(a, b, strict=True)
        ]
        return np.stack([elements(entries, (rows, columns)) for entries in out])

    def algebra(self, step: Any) -> Algebra:
        """Factorizations of single matrices, with the native result to follow in its choices."""
        return Algebra(lambda *parts: self._on_middles(step, parts))

    def _on_middles(self, step: Any, parts: Sequence[Array]) -> list[Array]:
        """The step itself on midpoints, in the dtype that the program has."""
        args = []
        for part, aval in zip(parts, step.in_avals, strict=True):
            flat = [complex(b.mid()) if isinstance(b, acb) else float(b.mid()) for b in part.flat]
            middle = np.array(flat).reshape(part.shape)
            args.append(on_device(middle.astype(aval.dtype)))
        with jax.enable_x64(True):
            outs = step.eqn.primitive.bind(*args, **step.params)
        return list(outs) if step.eqn.primitive.multiple_results else [outs]

    def dft(self, x: Array, axis: int, *, inverse: bool) -> Array:
        """The discrete Fourier transform along an axis; the inverse divides by the length."""
        moved = np.moveaxis(x, axis, -1)
        lines = moved.reshape(-1, moved.shape[-1])
        done = [elements(acb.dft(line.tolist(), inverse=inverse), line.shape) for line in lines]
        out = np.stack(done) if done else lines
        return np.moveaxis(out.reshape(moved.shape), -1, axis)

    def neutral(self, op: str, aval: Any) -> Any:
        """What changes nothing under a reduction."""
        if aval.kind == "f":
            return scalar.NEUTRAL[op]
        if aval.kind == "c":
            return complexes.as_complex(scalar.NEUTRAL[op])
        limits = {"max": "min", "min": "max"}
        if op in limits and aval.kind == "i":
            return getattr(np.iinfo(aval.dtype), limits[op])
        return {"add": 0, "mul": 1, "max": NO, "min": YES}[op]

    def combine_numbers(self, op: str, old: Any, new: Any) -> Any:
        """One scattered write."""
        return scalar.BINARY[op](old, new)

    # -- loops and the rest ---------------------------------------------------------

    def overlap_rows(self, before: Sequence[Array], after: Sequence[Array]) -> Array:
        """For each point: do two states of a loop agree as far as narrow balls can tell?"""
        same = np.ones(len(after[0]), bool)
        for old, new in zip(before, after, strict=True):
            if not self.holds(new):
                continue
            wide = np.broadcast_to(old, new.shape)
            hit = [
                x.overlaps(y) and (y.is_exact() or y.rel_accuracy_bits() >= _SETTLED)
                for x, y in zip(wide.reshape(-1), new.reshape(-1), strict=True)
            ]
            same &= np.array(hit, bool).reshape(len(new), -1).all(axis=1)
        return same


# -- pieces -----------------------------------------------------------------------


def exact(values: Any) -> Array:
    """Balls of radius zero for float64 numbers."""
    array = np.asarray(values, np.float64)
    return elements([arb(v) for v in array.reshape(-1).tolist()], array.shape)


def _widened(array: Array, wide: Array) -> Array:
    radii = half_ulps(array)
    pairs = zip(wide.reshape(-1).tolist(), radii.reshape(-1).tolist(), strict=True)
    return elements([arb(v, radius) if radius else arb(v) for v, radius in pairs], wide.shape)


def half_ulps(array: Array) -> Array:
    """How far rounded constants may be from what they stand for; 0 for numbers that were written so."""
    steps = np.abs(np.spacing(array)).astype(np.float64) / 2
    flat = array.astype(np.float64).reshape(-1)
    rounded = [np.isfinite(v) and not _short(v, array.dtype) for v in flat.tolist()]
    return np.where(np.reshape(rounded, array.shape), steps, 0.0)


def _short(value: float, dtype: Any) -> bool:
    """Few significant bits: a number that was written, not rounded."""
    mantissa = int(abs(np.frexp(value)[0]) * 2**53)
    digits = 53 - ((mantissa & -mantissa).bit_length() - 1) if mantissa else 0
    return digits <= {2: 6, 4: 12, 8: 24}[np.dtype(dtype).itemsize]


def _infinite(ball: arb | acb) -> bool:
    if isinstance(ball, acb):
        return _infinite(ball.real) or _infinite(ball.imag)
    return bool(ball in (scalar.INF, -scalar.INF))


def _truncated(ball: arb) -> arb:
    return ball.floor() if ball >= 0 else ball.ceil()


def _is_one(x: Array) -> bool:
    return x.size == 1 and bool(x.flat[0] == 1)


def _binary(op: str) -> Any:
    """A function of two numbers as one of whole arrays, which can reduce them too."""
    return _UFUNCS.get(op) or _ufunc(scalar.BINARY.get(op) or special.SPECIAL[op], 2)


@cache
def _ufunc(function: Any, arguments: int) -> Any:
    """A scalar function as one of whole arrays."""
    return np.frompyfunc(function, arguments, 1)


_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply}
_COMPLEX_UFUNCS = _UFUNCS | {"sub": np.subtract}
_MIDDLES = np.frompyfunc(lambda b: b if b.is_exact() else b.mid(), 1, 1)
_COMPLEX = np.frompyfunc(acb, 2, 1)
_AS_COMPLEX = np.frompyfunc(complexes.as_complex, 1, 1)
_UNION = np.frompyfunc(scalar.union, 2, 1)
