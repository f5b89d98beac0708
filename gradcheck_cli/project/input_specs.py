"""Inputs as text: `x=f32[b n], y=i32[b] in 0..n, p=f32[n] in simplex, axis=-1`.

Trees nest: `params={w: f32[n k], b: f32[k]}, pair=(f32[n], f32[n])`. Names of dimensions are equal
where they are the same and differ where they are not. Read on the CLI's side too, so nothing heavy
is imported.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gradcheck_cli.project.dimensions import DimensionError, size_of, sizes_of

FLOATS = ("f16", "bf16", "f32", "f64", "float16", "bfloat16", "float32", "float64", "f", "float")
COMPLEX = ("c64", "c128", "complex64", "complex128", "complex")
INTEGERS = ("i8", "i16", "i32", "i64", "u8", "int8", "int16", "int32", "int64", "uint8", "int", "i")
FAMILIES = (
    "positive", "simplex", "sorted", "increasing", "unit", "nonzero", "spd", "orthogonal", "symmetric", "lower", "upper", "binary", "signs",
    "boxes",
)  # fmt: skip

_ARRAY = re.compile(r"(?P<dtype>[a-z]+\d*)\s*\[(?P<dims>[^\]]*)\]\s*(?P<domain>.*)$")
_DIMENSIONS = re.compile(r"[a-z]+\d*\s*\[(?P<dims>[^\[\]]*)\]")
_KINDS = {"{": "dict", "(": "tuple", "[": "list"}
_RANGE = re.compile(r"in\s+(?P<low>-?\d+)\s*\.\.\s*(?P<high>-?\w+)(?P<more>\+1)?$")
_INTERVAL = re.compile(
    r"in\s+(?P<left>[\[(])\s*(?P<low>[^,]+),\s*(?P<high>[^\])]+)(?P<right>[\])])$"
)
_BOUND = re.compile(r"(?P<sign><=|>=|<|>|≤|≥)\s*(?P<value>\S+)$")


class SpecError(Exception):
    """What is wrong with a spec, and where in it."""


# Families that whole numbers may be of.
_OF_INTEGERS = ("positive", "nonzero", "binary", "signs", "sorted", "increasing")
_LARGEST_INTEGER = 2**31 - 4  # and a few steps more


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval, or one of the families by its name."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    family: str | None = None
    text: str = ""

    @property
    def wholes(self) -> tuple[float, float]:
        """The least and the greatest whole number within."""
        low = self.low if math.isinf(self.low) else math.ceil(self.low)
        high = self.high if math.isinf(self.high) else math.floor(self.high)
        return low + (self.low_open and low == self.low), high - (
            self.high_open and high == self.high
        )


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array: of floats or complex numbers in the dtype under test, of integers or of booleans."""

    kind: str  # "float", "complex", "int" or "bool"
    shape: tuple[int, ...]
    bounds: Bounds | None
    text: str


@dataclass(frozen=True, slots=True)
class ValueSpec:
    """A plain value, as Python has it."""

    value: object
    text: str


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """A dict by its keys, or a tuple or list by its places, of specs."""

    kind: str  # "dict", "tuple" or "list"
    items: tuple[tuple[str, Spec], ...]
    text: str


Spec = ArraySpec | ValueSpec | TreeSpec


def parse(text: str) -> dict[str, Spec]:
    """Each argument's spec; dimensions are numbered over all of them."""
    written = " ".join(match["dims"] for match in _DIMENSIONS.finditer(text))
    sizes = sizes_of(written.replace(",", " ").split())
    specs: dict[str, Spec] = {}
    for start, part in _parts(text):
        match = re.match(r"\s*(?P<name>[A-Za-z_]\w*)\s*[=:]\s*(?P<spec>.+?)\s*$", part)
        if match is None:
            raise _error(text, start, "write `name=spec`, such as `x=f32[b n]`")
        if match["name"] in specs:
            raise _error(text, start, f"`{match['name']}` is given twice")
        at = start + match.start("spec")
        specs[match["name"]] = _spec(text, at, match["spec"], sizes)
    if not specs:
        raise _error(text, 0, "it is empty: write `x=f32[b n]`")
    return specs


def condition(text: str) -> tuple[str, Bounds]:
    """An argument and where it lives, as in `x > 0` or `p in simplex`."""
    match = re.match(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?P<domain>\S.*?)\s*$", text)
    bounds = None if match is None else _bounds(text, match.start("domain"), match["domain"], {})
    if match is None or bounds is None:
        raise _error(text, 0, "write a condition such as `x > 0`")
    return match["name"], bounds


def _parts(text: str) -> list[tuple[int, str]]:
    """Split at commas that are in no bracket. (`in (0, 1]` closes with either kind.)"""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append((start, text[start:i]))
            start = i + 1
    parts.append((start, text[start:]))
    return [(at, part) for at, part in parts if part.strip()]


def _spec(text: str, at: int, spec: str, sizes: dict[str, int]) -> Spec:
    match = _ARRAY.match(spec)
    if match is not None:
        return _array(text, at, match, sizes)
    try:
        return ValueSpec(ast.literal_eval(spec), spec)
    except (ValueError, SyntaxError, TypeError):
        kind = _KINDS.get(spec[0])
    if kind is None or spec[-1] not in ")]}":
        hint = "an array such as `f32[b n]`, nor a Python value such as `-1` or `'mean'`"
        raise _error(text, at, f"`{spec}` is neither {hint}")
    parts = [(at + 1 + start, part) for start, part in _parts(spec[1:-1])]
    read = _keyed if kind == "dict" else _placed
    return TreeSpec(kind, tuple(read(text, parts, sizes)), spec)


def _array(text: str, at: int, match: re.Match[str], sizes: dict[str, int]) -> ArraySpec:
    dtype = match["dtype"]
    words = {"float": FLOATS, "complex": COMPLEX, "int": INTEGERS, "bool": ("bool",)}
    kind = next((kind for kind, names in words.items() if dtype in names), None)
    if kind is None:
        raise _error(text, at, f"`{dtype}` is no dtype: f32, f64, f16, bf16, c64, i32, i64 or bool")
    try:
        shape = tuple(size_of(dim, sizes) for dim in match["dims"].replace(",", " ").split())
    except DimensionError as error:
        raise _error(text, at, str(error)) from None
    bounds = _bounds(text, at + match.start("domain"), match["domain"].strip(), sizes)
    if kind == "int" and bounds is not None:
        _require_integers(text, at + match.start("domain"), bounds)
    return ArraySpec(kind, shape, bounds, match.string)


def _require_integers(text: str, at: int, bounds: Bounds) -> None:
    low, high = bounds.wholes
    if bounds.family in set(FAMILIES) - set(_OF_INTEGERS):
        raise _error(text, at, f"`{bounds.family}` is a family of floats")
    if low > high or math.inf in (low, -high):
        raise _error(text, at, "no whole number lies in it")
    if max(low, -high) > _LARGEST_INTEGER:
        raise _error(text, at, "integers have 32 bits")


def _keyed(
    text: str, parts: list[tuple[int, str]], sizes: dict[str, int]
) -> Iterator[tuple[str, Spec]]:
    for start, part in parts:
        match = re.match(r"\s*(?P<quote>['\"]?)(?P<key>[\w./ -]+?)(?P=quote)\s*[:=]\s*(?P<spec>.+?)\s*$", part)  # fmt: skip
        if match is None:
            raise _error(text, start, "write `{key: spec}`, such as `{w: f32[n k], b: f32[k]}`")
        yield match["key"], _spec(text, start + match.start("spec"), match["spec"], sizes)


def _placed(
    text: str, parts: list[tuple[int, str]], sizes: dict[str, int]
) -> Iterator[tuple[str, Spec]]:
    for i, (start, part) in enumerate(parts):
        yield str(i), _spec(text, start, part.strip(), sizes)


def _bounds(text: str, at: int, domain: str, sizes: dict[str, int]) -> Bounds | None:
    if not domain:
        return None
    family = domain.removeprefix("in ").strip()
    if family in FAMILIES:
        return Bounds(family=family, text=family)
    if match := _RANGE.match(domain):
        high = match["high"]
        last = int(high) if re.fullmatch(r"-?\d+", high) else sizes.get(high)
        if last is None:
            raise _error(text, at, f"no dimension is called `{high}`")
        last += 0 if match["more"] else -1  # `1..n+1` are counts up to n
        return Bounds(int(match["low"]), last, family="integers", text=domain)
    if match := _INTERVAL.match(domain):
        low, high_end = _number(text, at, match["low"]), _number(text, at, match["high"])
        if not low < high_end:
            raise _error(text, at, "the interval is empty")
        return Bounds(low, high_end, match["left"] == "(", match["right"] == ")", text=domain)
    if match := _BOUND.match(domain):
        value, sign = _number(text, at, match["value"]), match["sign"]
        if sign in (">", ">=", "≥"):
            return Bounds(low=value, low_open=sign == ">", text=domain)
        return Bounds(high=value, high_open=sign == "<", text=domain)
    families = ", ".join(FAMILIES)
    raise _error(
        text,
        at,
        f"`{domain}`: write `in [0, 1]`, `> 0`, `in 0..n`, `in 1..n+1`, or in one of {families}",
    )


def _number(text: str, at: int, written: str) -> float:
    try:
        return float(written)
    except ValueError:
        raise _error(text, at, f"`{written.strip()}` is no number") from None


def _error(text: str, at: int, message: str) -> SpecError:
    at += len(text[at:]) - len(text[at:].lstrip())
    return SpecError(f"{message} (at `{text[at : at + 24].strip()}`)")
