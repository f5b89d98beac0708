"""Numbers for an argument that may be left out and has no gradient: one for each place along axes that others have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.signature import Fixed, Hints, Signature
from gradcheck_cli.inputs.stand_ins import mask

# What is left out by default and is, where it is given, a number for each class or feature.
_OF_CLASSES = re.compile(r"weights?$|^weights?|_pos$|scales?$|priors?$|freq|counts?$|balance")
_AXES = re.compile(r"(?:f32|bool)\[(?P<axes>[^\[\]]*)\]")


def given_numbers(name: str, signature: Signature, hints: Hints) -> Iterator[Fixed]:
    """Numbers in the shape that a text gives, where its axes are those of the call's arrays or numbers.

    Several in a row are a tuple first: there are functions that take no array where they want constants.
    """
    sizes, found = _sizes(signature, hints), False
    for clue in hints.clues.get(name, ()):
        axes = _axes(clue)
        shape = [int(axis) if axis.isdigit() else sizes.get(axis, 0) for axis in axes]
        if clue.kind is Kind.BOOLS and shape and all(shape):
            yield mask(tuple(shape), clue.source)
        if clue.kind is Kind.ARRAY and shape and all(shape):
            found, count = True, int(np.prod(shape))
            numbers = (0.5 + np.arange(count) % 4 / 4).astype(np.float32).reshape(shape)
            if len(shape) == 1:
                row = tuple(numbers.tolist())
                yield Fixed(row, repr(row), clue.source)
            yield Fixed(numbers, f"f32{shape}", clue.source)
    one_axis = any(c.kind is Kind.ARRAY and len(_axes(c)) == 1 for c in hints.clues.get(name, ()))
    if not found and (one_axis or _OF_CLASSES.search(name.lower())):
        lengths = dict.fromkeys(n for leaf in signature.leaves for n in reversed(leaf.shape))
        yield from (each for count in lengths for each in _row(count))


def _row(count: int) -> Iterator[Fixed]:
    """A number for each class, feature or row: an axis of what is differentiated has as many."""
    numbers = (0.5 + np.arange(count) % 4 / 4).astype(np.float32)
    row, source = tuple(numbers.tolist()), "a number for each place along an axis"
    yield Fixed(row, repr(row), source)
    yield Fixed(numbers, f"f32[{count}]", source)


def _sizes(signature: Signature, hints: Hints) -> dict[str, int]:
    """The axes that texts name, by their sizes in the call."""
    return {
        axis: size
        for leaf in signature.leaves
        for clue in hints.clues.get(leaf.path, ())
        if len(_axes(clue)) == len(leaf.shape)
        for axis, size in zip(_axes(clue), leaf.shape, strict=True)
    }


def _axes(clue: Clue) -> list[str]:
    match = _AXES.match(clue.spec)
    return [] if match is None else match["axes"].split()
