"""Plain values for one parameter: those that a source states, then those that its kind or its name suggests."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gradcheck_cli.clues.usual_numbers import usual_sizes
from gradcheck_cli.infer.specs import specified
from gradcheck_cli.inputs.clue import ANOTHER, Clue, Kind
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.names import counts_bits, ends_iterations, fixed_by_name, is_axis
from gradcheck_cli.inputs.signature import GUESS, Fixed, Hints
from gradcheck_cli.project.input_specs import Bounds

PLAIN_KINDS = frozenset(
    {Kind.NUMBER, Kind.WHOLE, Kind.AXIS, Kind.WORD, Kind.FLAG, Kind.DTYPE, Kind.SHAPE, Kind.KEY}
)
_SEVERAL = (2, 3, 4, 5)
_LARGEST = 8
_LONGEST = 64  # of what an argument counts: longer ones are those of real data, and come last
_SEVERAL_AXES = ((-2, -1), (0, -1))
_PLURALS = frozenset({"axes", "dims", "dimensions"})
_TUPLE = re.compile(r"\btuples?\b|\bsequences?\b|\blists?\b", re.IGNORECASE)
_BITS = (4, 3)  # one bit has no number above zero
# Where nothing names a value: the likeliest first.
_OF_KIND: dict[Kind, tuple[object, ...]] = {
    Kind.NUMBER: (0.5, 2),
    Kind.WHOLE: (2, 1, 3),
    Kind.AXIS: (-1, 0, 1),
    Kind.FLAG: (False, True),
    Kind.DTYPE: ("float32",),
}


def plain_values(name: str, shape: tuple[int, ...], hints: Hints) -> list[Fixed]:
    """Values that are no arrays of floats, each once, the likeliest first."""
    clues = hints.clues.get(name, ())
    stated = [
        Fixed(v, _text(v), c.source)
        for c in clues
        for v in _values(c, clues)
        if ends_iterations(name) or not _large(v, c)
    ]
    given = specified(name, *hints.guesses[name]) if name in hints.guesses else None
    guess = [given] if isinstance(given, Fixed) else []
    of_data = [f for f in guess if is_long(f.value) and not ends_iterations(name)]
    stated += [f for f in guess if f not in of_data]
    named = fixed_by_name(name, shape, hints.make_key)
    kind = stated_kind(clues)
    source = source_of(clues)
    usual = _BITS if kind is Kind.WHOLE and counts_bits(name) else _OF_KIND.get(kind, ())
    of_kind = [Fixed(v, repr(v), source) for v in usual]
    if kind is Kind.SHAPE:
        of_kind = [Fixed(shape, repr(shape), source)]
    if kind is Kind.KEY and hints.make_key is not None:
        of_kind = [Fixed(hints.make_key(), "key(0)", source)]
    if kind in (Kind.WHOLE, Kind.AXIS, Kind.WORD, Kind.NUMBER):  # no array, whatever it is called
        named = [f for f in named if isinstance(f.value, (int, float))]
    if kind is Kind.WORD:  # and no number
        named = []
    several_axes = [
        Fixed(axes, repr(axes), source)
        for axes in (_SEVERAL_AXES if _takes_several(name, clues, kind) else ())
    ]
    if ends_iterations(name):
        of_kind = []
    guessed = _distinct([*named, *of_kind])
    likely = [*several_axes, *stated, *_within(guessed, hints.domains.get(name))]
    return _distinct([*likely, *of_data])


def _values(clue: Clue, clues: Sequence[Clue]) -> Sequence[object]:
    """The values of a clue; a word that was made up beside a default is none where another source knows the words."""
    made_up = clue.kind is Kind.WORD and clue.values[1:] == (ANOTHER,)
    others = any(c is not clue and c.kind is Kind.WORD and len(c.values) > 1 for c in clues)
    return clue.values[:1] if made_up and others else clue.values


def _within(guessed: Sequence[Fixed], domain: Domain | None) -> list[Fixed]:
    """The guesses but the numbers outside of what a source says; where none is left, some that lie inside."""
    if domain is None or domain.bounds.family not in (None, "integers", "positive"):
        return list(guessed)
    numbers = [f for f in guessed if _is_number(f.value)]
    inside = [f for f in guessed if not _is_number(f.value) or _lies_in(f.value, domain.bounds)]
    if not numbers or any(_is_number(f.value) for f in inside):
        return inside
    return [*inside, *(Fixed(n, repr(n), domain.source) for n in _some_in(domain.bounds))]


def _some_in(bounds: Bounds) -> list[float]:
    """Two numbers of an interval: whole ones beside its lower end, or its upper end, where there are any."""
    low, high = bounds.low, bounds.high
    near: list[float] = []
    if math.isfinite(low):
        least = math.floor(low) + 1 if bounds.low_open else math.ceil(low)
        near = [least + 1, least]
    elif math.isfinite(high):
        most = math.ceil(high) - 1 if bounds.high_open else math.floor(high)
        near = [most, most - 1]
    whole = [n for n in near if _lies_in(n, bounds)]
    between = math.isfinite(low) and math.isfinite(high)
    return whole or ([(low + high) / 2, (3 * low + high) / 4] if between else [])


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _lies_in(number: float, bounds: Bounds) -> bool:
    above = number > bounds.low if bounds.low_open else number >= bounds.low
    below = number < bounds.high if bounds.high_open else number <= bounds.high
    return above and below and (number > 0 or bounds.family != "positive")


def _takes_several(name: str, clues: Sequence[Clue], kind: Kind) -> bool:
    """Is it an axis that may be several, by its name or by what a source says?"""
    axis = kind is Kind.AXIS or is_axis(name)
    many = name.lower().strip("_") in _PLURALS or any(_TUPLE.search(c.source) for c in clues)
    return axis and many


def several(name: str, hints: Hints) -> list[Fixed]:
    """Several whole numbers, where the body unpacks what is no array: the size of a picture."""
    count = hints.unpacked.get(name, 0)
    sizes = usual_sizes(name, count) if count in _SEVERAL else ()
    return [Fixed(size, repr(size), "the body unpacks it") for size in sizes]


def _large(value: object, clue: Clue) -> bool:
    """Is it a size of real data, beside which the small arrays that are tried are nothing?"""
    return clue.kind is Kind.WHOLE and isinstance(value, int) and abs(value) > _LARGEST


def is_long(value: object) -> bool:
    """Is it a whole number as long as real data are, beside which the small arrays that are tried are nothing?"""
    return isinstance(value, int) and not isinstance(value, bool) and value > _LONGEST


def stated_kind(clues: Sequence[Clue]) -> Kind:
    """The kind of argument that the strongest source states that states one; a scalar `Tensor` is a number."""
    stating = [clue for clue in clues if clue.kind is not Kind.NOTHING]
    if not stating:
        return Kind.NOTHING
    bare = stating[0].kind is Kind.ARRAY and not stating[0].spec and stating[0].rank is None
    return next((c.kind for c in stating[1:2] if bare and c.kind is Kind.NUMBER), stating[0].kind)


def source_of(clues: Sequence[Clue]) -> str:
    return clues[0].source if clues else GUESS


def _text(value: object) -> str:
    """The value as Python writes it; of an array its kind and shape."""
    kind, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    return repr(value) if shape is None else f"{kind}{list(shape)}"


def _distinct(values: Sequence[Fixed]) -> list[Fixed]:
    by_text: dict[str, Fixed] = {}
    for value in values:
        by_text.setdefault(value.text, value)
    return list(by_text.values())
