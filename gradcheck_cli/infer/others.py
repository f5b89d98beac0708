"""Other values of one argument, likeliest first: flags the other way, words, numbers moved, what was left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from gradcheck_cli.discover.settings_objects import holds_settings, otherwise
from gradcheck_cli.infer.given import given_numbers
from gradcheck_cli.infer.remade import remade
from gradcheck_cli.infer.static_values import is_long, plain_values, several, source_of, stated_kind
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.names import (
    counts_terms,
    ends_iterations,
    fixed_by_name,
    is_axis,
    is_guard,
    is_threshold,
    is_tolerance,
    says_a_sign,
    says_not_a_float,
)
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Hints, Leaf, Parameter, Signature, tables
from gradcheck_cli.inputs.stand_ins import mask
from gradcheck_cli.project.input_specs import ArraySpec

_BODY = "the body"
_BESIDE = (0.75, 1.25)  # of a default
_SHARES_OF_THRESHOLDS = (0.25, 1.25)  # which few numbers are beyond
_A_NUMBER = 0.75  # what is left out by default
GIVEN = "given, not left out"  # a source
OPEN = 11  # a size that no axis has: it is to be solved for
_SHARE = 0.25  # what is off by default (0.0) when it is on


def other_values(
    parameter: Parameter, here: Any, signature: Signature, hints: Hints
) -> Iterator[Any]:
    """Other values of the argument, likeliest first; no count below the integers of a table that it bounds."""
    most = max((int(a.max()) for _, a in tables(signature) if a.dtype != bool), default=-1)
    value = value_of(parameter, here)
    cls = hints.classes.get(parameter.name)
    if isinstance(here, Fixed) and cls is not None and type(value) is cls:
        yield from remade(cls)
        return
    stops = ends_iterations(parameter.name) or is_tolerance(parameter.name)
    if stops and here is OMITTED and value is not None:
        return  # an iteration that is stopped before has another derivative
    if counts_terms(parameter.name) and type(value) is int:  # with fewer it is another function
        yield Fixed(value + 1, str(value + 1), "off its default")
        return
    if says_a_sign(parameter.name) and type(value) in (int, float) and abs(value) == 1:
        yield Fixed(-value, str(-value), "the other sign")
        return
    bounds = type(value) is int and value > most >= 0
    for other in _other_values(parameter, here, signature, hints):
        number = getattr(other, "value", None)
        if not (bounds and type(number) is int and number <= most):
            yield other


def _other_values(
    parameter: Parameter, here: Any, signature: Signature, hints: Hints
) -> Iterator[Any]:
    if isinstance(here, Leaf) or (not isinstance(here, Fixed) and here is not OMITTED):
        return
    value = value_of(parameter, here)
    if hasattr(value, "shape") or parameter.name in hints.specs:
        return
    settings = list(otherwise(value))
    if settings:
        yield from settings
        return
    shapes = _shapes(signature)
    plain = _of_its_type(plain_values(parameter.name, shapes[0], hints), here)
    if value is None:
        yield from _given(parameter, here, plain, signature, hints)
        if here is OMITTED and optional(parameter):
            return
    if isinstance(value, bool):
        yield Fixed(not value, str(not value), "the flag the other way")
        return
    if here is OMITTED and isinstance(value, float):
        yield from _beside_float(parameter, value, plain, hints)
    if isinstance(value, tuple):
        yield from _other_tuples(parameter.name, value, here, hints)
    usual = [f for f in plain if not (same(f.value, value) or hasattr(f.value, "shape"))]
    usual = [f for f in usual if not _is_of_real_data(parameter, f, hints)]
    yield from reversed(usual) if is_guard(parameter.name) else usual  # the one that shows
    if isinstance(here, Fixed):
        named = bool(fixed_by_name(parameter.name, shapes[0], None))
        yield from _beside_guess(value, plain, named)
    elif here is OMITTED and isinstance(value, int):
        yield Fixed(value + 1, str(value + 1), "off its default")


def _other_tuples(name: str, value: tuple[Any, ...], here: Any, hints: Hints) -> Iterator[Fixed]:
    """Other pairs and triples: sides of a tile, then the numbers moved, then what the body unpacks."""
    yield from (f for f in _sides(name, hints) if not same(f.value, value))
    if not moves_axis(name, hints):
        yield from _moved(value) if here is OMITTED else _moved_apart(value)
    if isinstance(here, Fixed):
        yield from (f for f in several(name, hints) if not same(f.value, value))


def _sides(name: str, hints: Hints) -> Iterator[Fixed]:
    """The sizes that the text gives what divides an axis by each of its numbers: the sides of a tile."""
    for clue in hints.clues.get(name, ()):
        if any(entry.divides for entry in clue.entries):
            yield from (Fixed(v, repr(v), clue.source) for v in clue.values if type(v) is tuple)


def _of_its_type(plain: Sequence[Fixed], here: Any) -> Sequence[Fixed]:
    """No whole numbers beside a float that is handed over: as an input these are of another dtype."""
    is_float = isinstance(here, Fixed) and type(here.value) is float
    return [f for f in plain if not (is_float and type(f.value) is int)]


def _given(
    parameter: Parameter, here: Any, plain: Sequence[Fixed], signature: Signature, hints: Hints
) -> Iterator[Any]:
    """What is left out by default; of what calls elsewhere leave out, masks, and arrays where the body asks for None."""
    shapes = _shapes(signature)
    yield from _given_masks(parameter.name, shapes, hints)
    if here is not OMITTED:
        asked = any(v is None for v in special_values(parameter, hints))
        declined = any(clue.declined for clue in hints.clues.get(parameter.name, ()))
        if asked and not declined and may_be_floats(parameter.name, hints):
            yield Leaf(parameter.name, (OPEN,), GIVEN)
        return
    if optional(parameter):
        yield from (f for f in plain if f.value is not None)
        yield from _given_floats(parameter.name, shapes, hints)
        yield from _given_number(parameter.name, hints)  # where the rule declines arrays
        return
    stated = [v for clue in hints.clues.get(parameter.name, ()) for v in clue.values]
    yield from (f for f in plain if any(f.value is v and hasattr(v, "shape") for v in stated))
    yield from given_numbers(parameter.name, signature, hints)
    yield from _given_number(parameter.name, hints)


def _given_masks(name: str, shapes: Sequence[tuple[int, ...]], hints: Hints) -> Iterator[Fixed]:
    """Masks for what is left out by default, and which a text takes for one: of an array, of its rows, of what is along an axis."""
    clues = hints.clues.get(name, ())
    if stated_kind(clues) is Kind.BOOLS:
        source = source_of([clue for clue in clues if clue.kind is Kind.BOOLS])
        parts = [part for s in shapes for part in (s, s[:-1], s[-1:], s[:1]) if part]
        yield from (mask(part, source) for part in dict.fromkeys(parts))


def _given_floats(name: str, shapes: Sequence[tuple[int, ...]], hints: Hints) -> Iterator[Leaf]:
    """Arrays for what is left out by default, unless a source says that it is something else.

    Where one states how many axes they have, it is solved for how long these are.
    """
    if not may_be_floats(name, hints):
        return
    stated = hints.guesses.get(name, (None,))[0]
    if not isinstance(stated, ArraySpec):
        yield from (Leaf(name, shape, GIVEN) for shape in (*shapes, ()))
        return
    yield Leaf(name, (OPEN,) * len(stated.shape), GIVEN)


def _given_number(name: str, hints: Hints) -> Iterator[Fixed]:
    """A plain number for what is left out by default, unless a source or its name says that it is none."""
    kind = stated_kind(hints.clues.get(name, ()))
    may_be_one = kind in (Kind.NOTHING, Kind.NUMBER, Kind.ARRAY) and not says_not_a_float(name)
    if may_be_one and not fixed_by_name(name, (), None):
        yield Fixed(_A_NUMBER, repr(_A_NUMBER), GIVEN)


def _beside_guess(value: Any, plain: Sequence[Fixed], named: bool) -> Iterator[Fixed]:
    """Numbers beside one that nothing states: what 0.5 hides, for it is one minus itself, shows at 0.375."""
    others: tuple[Any, ...] = ()
    if type(value) is int and not plain and not named:
        others = tuple(n for n in (value - 1, value + 1) if n > 0)
    elif type(value) is float and not any(f.value != value for f in plain):
        others = (0.75 * value, 1.5 * value)
    yield from (Fixed(n, repr(n), "beside the first guess") for n in others)


def _others_stated(parameter: Parameter, hints: Hints) -> bool:
    """Does a source state values beside the default, or a name one?"""
    clues = hints.clues.get(parameter.name, ())
    others = any(not same(v, parameter.default) for clue in clues for v in clue.values)
    return others or bool(fixed_by_name(parameter.name, (), None))


def _beside_float(
    parameter: Parameter, default: float, plain: Sequence[Fixed], hints: Hints
) -> Iterator[Fixed]:
    """Numbers near a default, unless others are stated; but after those with which it takes another way."""
    special = special_values(parameter, hints)
    told = [f for f in plain if any(same(f.value, v) for v in special)]
    yield from (f for f in told if f.value != default)
    stated = [v for clue in hints.clues.get(parameter.name, ()) for v in clue.values]
    by_the_body_alone = special and len(special) == len(stated)
    if by_the_body_alone or not _others_stated(parameter, hints):
        yield from _nearby(
            default, _SHARES_OF_THRESHOLDS if is_threshold(parameter.name) else _BESIDE
        )


def _is_of_real_data(parameter: Parameter, other: Fixed, hints: Hints) -> bool:
    """Is it as long as a call elsewhere has it, of what has no default, and no number that the body asks for?"""
    asked = any(same(other.value, v) for v in special_values(parameter, hints))
    return parameter.default is OMITTED and is_long(other.value) and not asked


def special_values(parameter: Parameter, hints: Hints) -> list[object]:
    """The values with which the body compares it; there it takes another way than at its default."""
    clues = hints.clues.get(parameter.name, ())
    return [v for clue in clues if clue.source.startswith(_BODY) for v in clue.values]


def _nearby(default: float, shares: Sequence[float]) -> Iterator[Fixed]:
    """A smaller and a larger number: what is far from a default may be none that the function takes.

    An exponent of 1.5 is one between 1 and 2, a momentum of 0.9 lies below 1. What is 0 is often a share,
    a smoothing or a rate that is off.
    """
    near = [float(f"{part * default:.12g}") for part in shares if default]
    for moved in near or [_SHARE]:
        yield Fixed(moved, repr(moved), "off its default")


def _moved(default: tuple[Any, ...]) -> Iterator[Fixed]:
    """Another pair or triple of numbers: a domain of another length than (−1, 1), another padding."""
    if _are_floats(default):
        moved = tuple(round(n * (5 + i) / 4, 12) or (i + 1) / 8 for i, n in enumerate(default))
        yield Fixed(moved, repr(moved), "off its default")
    elif default and all(type(number) is int and number > 0 for number in default):
        alike = len(set(default)) == 1  # moved together, they would stay so
        more = tuple(number + 1 + i * alike for i, number in enumerate(default))
        yield Fixed(more, repr(more), "off its default")


def _moved_apart(given: tuple[Any, ...]) -> Iterator[Fixed]:
    """Floats of a call, each moved by a share of its own: what is a share stays one, what is in order stays so."""
    if not _are_floats(given):
        return
    width = given[-1] - given[0]
    if all(0 < n < 1 for n in given):
        moved = tuple(round(n * (6 + i) / 8, 12) for i, n in enumerate(given))
    elif all(a < b for a, b in itertools.pairwise(given)):
        moved = tuple(round(n + width * (1 + i) / 8, 12) for i, n in enumerate(given))
    else:
        moved = tuple(round(n * (5 + i) / 4, 12) or (i + 1) / 8 for i, n in enumerate(given))
    yield Fixed(moved, repr(moved), "beside a call")


def _are_floats(several: tuple[Any, ...]) -> bool:
    return bool(several) and all(type(number) is float for number in several)


def same(one: object, other: object) -> bool:
    """Equal and of one type: True is no 1. Types that compare in their own way are never asked."""
    return type(one) is type(other) and repr(one) == repr(other)


def optional(parameter: Parameter) -> bool:
    return parameter.default is None and parameter.differentiable


def may_be_floats(name: str, hints: Hints) -> bool:
    """May the argument be an array of floats, as far as sources say?"""
    return stated_kind(hints.clues.get(name, ())) in (Kind.NOTHING, Kind.ARRAY)


def chooses(name: str, hints: Hints) -> bool:
    """Does the argument choose between ways of computing, all of which the function means?"""
    return moves_axis(name, hints) or stated_kind(hints.clues.get(name, ())) is Kind.WORD


def moves_axis(name: str, hints: Hints) -> bool:
    return stated_kind(hints.clues.get(name, ())) is Kind.AXIS or is_axis(name)


def has_ways(parameter: Parameter, here: Any, hints: Hints) -> bool:
    """Does it choose among ways of computing, by a word or by what it holds?"""
    word = stated_kind(hints.clues.get(parameter.name, ())) is Kind.WORD
    return word or holds_settings(value_of(parameter, here))


def value_of(parameter: Parameter, here: Any) -> Any:
    return here.value if isinstance(here, Fixed) else parameter.default


def _shapes(signature: Signature) -> list[tuple[int, ...]]:
    """The shapes of its arrays, each once."""
    return list(dict.fromkeys(leaf.shape for leaf in signature.leaves))
