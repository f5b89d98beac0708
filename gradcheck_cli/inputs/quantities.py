"""Quantities that are never negative, or shares of a whole, as a parameter's name says: `pressure`, `slant_range`.

They stand beside those in whose domain the inputs are laid by the name alone (`clues/usual_domains.py`).
Names are no promise: numbers beyond them are tried all the same. What floats do there, and autodiff alike, is
no reason to fail a build (SEMANTICS A4); nor, of what is surely a quantity, is a formula that is wrong there alone.
"""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcheck_cli.contract.limits import EXPONENT
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.project.input_specs import Bounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Quantity:
    """The numbers that a quantity has, and how a report calls the others; `surely`, if nobody gives it a sign or another scale."""

    low: float
    high: float
    low_open: bool
    otherwise: str
    surely: bool = False

    def has(self, numbers: Array) -> Array:
        """Which of these numbers it has."""
        below = numbers <= self.low if self.low_open else numbers < self.low
        return np.asarray(~below & (numbers <= self.high))

    @property
    def with_ends(self) -> Quantity:
        """With the least number, too: what is 0 may be meant, what lies below is not."""
        return replace(self, low_open=False, otherwise="negative") if self.low_open else self

    @property
    def bounds(self) -> Bounds:
        """Its numbers, and its ends, as a comment says them."""
        text = ">= 0" if math.isinf(self.high) else f"in [{self.low:g}, {self.high:g}]"
        return Bounds(self.low, self.high, text=text)


_POSITIVE = Quantity(0.0, float("inf"), True, "not positive")
_NOT_NEGATIVE = Quantity(0.0, float("inf"), False, "negative")
_SHARE = Quantity(0.0, 1.0, False, "outside of 0 to 1")
_CORRELATION = Quantity(-1.0, 1.0, False, "outside of -1 to 1")
_EXPONENT = Quantity(-EXPONENT.value, EXPONENT.value, False, "larger than any exponent that is met")

# Of a strain, a flux or a price the name is a habit; of a porosity it is the meaning.
_SURELY_POSITIVE = replace(_POSITIVE, surely=True)
_SURELY_NOT_NEGATIVE = replace(_NOT_NEGATIVE, surely=True)
_SURELY_A_SHARE = replace(_SHARE, surely=True)

_WORDS = (
    (_POSITIVE, "sd modulus tenor scale tau pressure gravity precision litre tolerance"),
    (_SURELY_POSITIVE, "kelvin"),
    (_NOT_NEGATIVE, "range height flux speed magnitude amplitude price cost wage demand quantity hazard"),
    (_NOT_NEGATIVE, "rate strain friction minute hour day week month year gram metre meter delay stock budget vote"),
    (_NOT_NEGATIVE, "steepness intensity importance sharpness odds click"),
    (_SURELY_NOT_NEGATIVE, "length dose dosage concentration conc count population irradiance luminance radiance"),
    (_SURELY_NOT_NEGATIVE, "brightness luminosity illuminance salinity moisture humidity turbidity"),
    (_SURELY_NOT_NEGATIVE, "harvest salary payload fuel mileage spacing tooth teeth visit roughness hardness drag"),
    (_SHARE, "saturation eccentricity share coverage viability survival mortality prevalence availability"),
    (_SURELY_A_SHARE, "prob probability fraction proportion porosity efficiency albedo emissivity reflectance"),
    (_SURELY_A_SHARE, "transmittance occupancy opacity purity"),
    (_CORRELATION, "corr correlation"),
    (_EXPONENT, "exponent"),
)  # fmt: skip
_KNOWN = {word: quantity for quantity, words in _WORDS for word in words.split()}
# What is taken of a quantity has its own numbers, those of a logarithm or of a difference.
_TAKEN = frozenset({
    "log", "ln", "logit", "log10", "log2", "raw", "d", "delta", "diff", "rel", "relative", "error", "err", "residual",
    "bias", "shift", "offset", "change", "dev", "grad", "signed", "net", "free", "unconstrained", "centred", "centered",
    "normalized", "normalised", "scaled", "z", "dx", "dy", "dz", "inv",
})  # fmt: skip
_INDEX = 2  # letters of an index behind a name
_NAME = re.compile(r"\w+")


def quantity_held_by(leaf: Leaf) -> Quantity | None:
    """What the name of an argument says, where nothing says its domain, and its default is none of the others."""
    quantity = None if leaf.is_bounded else quantity_of(leaf.path)
    if quantity is None or (leaf.centre is not None and not quantity.has(np.asarray(leaf.centre))):
        return None
    return quantity


@functools.lru_cache(maxsize=1024)
def quantity_of(path: str) -> Quantity | None:
    """What the last name of a path says: of `params['wall_pressure']`, that it is positive."""
    names = [name for name in _NAME.findall(path) if not name.isdigit()]
    if not names:
        return None
    words = [word.rstrip("0123456789") for word in names[-1].lower().strip("_").split("_")]
    if _TAKEN.intersection(words):
        return None
    while len(words) > 1 and len(words[-1]) <= _INDEX:  # `tau_m`, `price_0`
        words.pop()
    return _known(words[-1])


def _known(word: str) -> Quantity | None:
    return (
        _KNOWN.get(word)
        or _KNOWN.get(word.removesuffix("s"))
        or _KNOWN.get(word.removesuffix("es"))
    )
