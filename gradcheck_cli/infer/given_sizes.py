"""Axes that a text names by an argument, or by an entry of a tuple of sizes: `C*ph*pw` beside `patch=(3, 2)`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gradcheck_cli.infer.template import Template
from gradcheck_cli.inputs.clue import Entry
from gradcheck_cli.inputs.signature import Fixed, Hints

_LARGEST = 16  # what an axis is called by and is larger may be the size of real data
_COUNTED = re.compile(r"(?:n|num|number_of)_(?P<what>\w+)|(?P<one>\w+)_count")
_PRODUCT = re.compile(r"\w+(?:\*\w+)+")


def with_given_sizes(opened: Template, hints: Hints, defaults: Mapping[str, object]) -> Template:
    """The call with the numbers of its arguments in the products that name them: `6*C`."""
    numbers = {
        name: value for name, value in given_numbers(opened, hints, defaults) if name and value > 0
    }
    given = dict(opened.signature.arguments)
    counts = {  # what has a default may count something else, and one is no size to tell by
        _counted_by(name): n
        for name, n in numbers.items()
        if n > 1 and name in given and type(defaults.get(name)) is not int
    }
    numbers = {what: n for what, n in counts.items() if what} | numbers
    holes = (
        replace(
            hole, dims=None if hole.dims is None else tuple(_put(d, numbers) for d in hole.dims)
        )
        for hole in opened.holes
    )
    return replace(opened, holes=tuple(holes))


def _counted_by(name: str) -> str:
    """What a number of this name counts: `nodes` for `n_nodes`."""
    match = _COUNTED.fullmatch(name)
    return match["what"] or f"{match['one']}s" if match else ""


def given_numbers(
    opened: Template, hints: Hints, defaults: Mapping[str, object]
) -> Iterator[tuple[str, int]]:
    """The whole numbers among the arguments, by their names; of a tuple the entries, by what a text calls them."""
    for name, value in given_values(opened, hints, defaults):
        if type(value) is int:
            yield name, value
        for entry, each in entries(name, value, hints):
            yield entry.name, each


def given_values(
    opened: Template, hints: Hints, defaults: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    """What each argument is: its value in the call, or its default, if sources speak of it."""
    given = dict(opened.signature.arguments)
    for name in dict.fromkeys((*hints.clues, *given)):
        value = given.get(name)
        yield name, value.value if isinstance(value, Fixed) else defaults.get(name)


def entries(name: str, value: object, hints: Hints) -> Iterator[tuple[Entry, int]]:
    """The entries of a tuple of sizes with what is said of each."""
    if not isinstance(value, tuple) or not all(type(each) is int for each in value):
        return
    for clue in hints.clues.get(name, ()):
        if len(clue.entries) == len(value):
            yield from zip(clue.entries, value, strict=True)


def _put(dim: str, numbers: Mapping[str, int]) -> str:
    """The number of an argument that an axis is called by; a product with all numbers in one, before the name that is left."""
    if 0 < numbers.get(dim, 0) <= _LARGEST:
        return str(numbers[dim])
    factors = dim.split("*") if _PRODUCT.fullmatch(dim) else []
    if not any(factor in numbers for factor in factors):
        return dim
    known = [numbers.get(f, int(f) if f.isdigit() else 0) for f in factors]
    names = [factor for factor, number in zip(factors, known, strict=True) if not number]
    product = math.prod(number for number in known if number)
    return str(product) if not names else "*".join([str(product), *names])
