"""Plain points, at which it is tried whether function and rule run at all."""

from __future__ import annotations

import re

import numpy as np

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.subject.results import Array

_PLAIN = (0.5, 0.75, 0.25, 1.5, 0.625, 1.25)
_MOST_TURNS = 8
_APART = 0.125  # how far at most what is added to each of its numbers
# What libraries say of a matrix that they cannot take apart: others of that shape they can.
_OF_NUMBERS = re.compile(
    r"invertible|\bsingular\b|positive.definite|cholesky|converge", re.IGNORECASE
)


def plain(leaf: Leaf, turn: int = 0) -> Array:
    """Ordinary numbers for an argument, no two of them equal: a square matrix of them has an inverse.

    In other turns they have no order, and both signs or one: an iteration may end there that runs away elsewhere.
    """
    size = int(np.prod(leaf.shape, dtype=int))
    if turn:
        random = np.random.default_rng([turn, *leaf.path.encode()])
        numbers: Array = random.uniform(random.choice([-1.0, 0.25]), 1, (1, *leaf.shape))
        rows = leaf.within(numbers, format_of("float32"))
        return rows.reshape(leaf.shape)
    apart = np.random.default_rng(0).uniform(0, _APART, size)
    return (np.resize(_PLAIN, size) + apart).reshape(leaf.shape)


def other_turn(error: BaseException, turn: int) -> int | None:
    """The next turn where an error says that these numbers could not be taken, and nothing of their shapes."""
    return turn + 1 if _OF_NUMBERS.search(str(error)) is not None and turn < _MOST_TURNS else None
