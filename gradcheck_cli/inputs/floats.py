"""Floating-point formats: their limits, their neighbours, their ordinals."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from gradcheck_cli.contract.limits import FLUSH, LAST_DIGITS
from gradcheck_cli.contract.number_text import tidy

Array = np.ndarray[Any, Any]

_KEEPS_SUBNORMALS = "float16"


@dataclass(frozen=True, slots=True)
class Format:
    """One float dtype. `eps` is the gap above 1, `digits` the bits of the significand.

    `underflow` is what underflows on the way may take away: numbers about as small as the normal ones where
    subnormals act as 0, and but their last digits in float16, which keeps them everywhere.
    """

    name: str
    dtype: Any
    bits: Any
    eps: float
    tiny: float
    max: float
    digits: int
    underflow: float

    def round(self, values: Any) -> Array:
        """Nearest floats of this format, as float64 (exact)."""
        with np.errstate(over="ignore"):
            return np.asarray(np.asarray(values, np.float64).astype(self.dtype), np.float64)

    def ordinals(self, values: Any) -> Array:
        """Position among all floats: neighbours differ by one, −0 and 0 are one number."""
        raw = np.asarray(values, np.float64).astype(self.dtype).view(self.bits).astype(np.int64)
        low = np.int64(np.iinfo(self.bits).min)
        return np.asarray(np.where(raw < 0, low - raw, raw))

    def from_ordinals(self, ordinals: Any) -> Array:
        """The floats at these positions, as float64."""
        n = np.asarray(ordinals, np.int64)
        low = np.int64(np.iinfo(self.bits).min)
        raw = np.where(n < 0, low - n, n).astype(self.bits)
        return np.asarray(raw.view(self.dtype), np.float64)

    def moved(self, values: Any, steps: Any) -> Array:
        """Floats some ulp away, kept finite."""
        top = int(self.ordinals(self.max))
        return self.from_ordinals(np.clip(self.ordinals(values) + steps, -top, top))

    def show(self, value: float) -> str:
        """Shortest text that reads back as the same float of this format."""
        if not np.isfinite(value):
            return str(float(value))
        if self.name == "float64":
            return tidy(repr(float(value)))
        if self.name == "float32":
            return tidy(_float32_text(np.float32(value)))
        return tidy(repr(float(f"{value:.5g}")))


def _float32_text(value: np.float32) -> str:
    """As numpy 2.3 writes it; before, `str` wrote large numbers without an exponent."""
    plain = value == 0 or 1e-4 <= abs(float(value)) < 1e6
    write = np.format_float_positional if plain else np.format_float_scientific
    return write(value, trim="0")


@functools.cache
def format_of(dtype: str) -> Format:
    """The format by name."""
    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype) or np.dtype(dtype).type
    info: Any = ml_dtypes.finfo(kind)
    width = np.dtype(kind).itemsize
    return Format(
        name=dtype,
        dtype=np.dtype(kind),
        bits={2: np.int16, 4: np.int32, 8: np.int64}[width],
        eps=float(info.eps),
        tiny=float(info.tiny),
        max=float(info.max),
        digits=int(info.nmant) + 1,
        underflow=float(
            LAST_DIGITS.value * info.smallest_subnormal
            if dtype == _KEEPS_SUBNORMALS
            else FLUSH.value * info.tiny
        ),
    )
