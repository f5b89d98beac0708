"""Whole numbers that a parameter may take by its name, where it is known to be one, or several of them."""

from __future__ import annotations

import itertools
import re

from gradcheck_cli.inputs.names import fixed_by_name, is_axis, is_step, is_window, says_a_sign

_USUAL = (3, 2)
_PADDING = re.compile(r"(?:\w+_)?(?:pad|padding|pads|dilations?)")
# For each axis another one, so that a mixture of axes shows; windows overlap at these steps.
_WINDOWS, _STEPS, _PADS = (3, 2), (2, 1), (1, 2)
_SIZES = (
    5,
    2,
    7,
)  # no size of the arrays that are tried first: a picture of the same size stays as it is


def usual_numbers(name: str) -> tuple[bool, tuple[int, ...]]:
    """Is it an axis, and which whole numbers is it likely to be?"""
    suggested = (fixed.value for fixed in fixed_by_name(name, (), None))
    numbers = tuple(v for v in suggested if isinstance(v, int) and not isinstance(v, bool))
    lowered = name.lower().strip("_")
    axis = is_axis(name) or lowered.endswith("_axis")
    if says_a_sign(name):
        return False, (1, -1)
    return axis, numbers or ((-1, 0) if axis else _USUAL)


def usual_sizes(name: str, count: int) -> tuple[tuple[int, ...], ...]:
    """Tuples of so many whole numbers that it is likely to be."""
    numbers: tuple[int, ...] = _SIZES
    if is_step(name):
        numbers = _STEPS
    elif is_window(name):
        numbers = _WINDOWS
    elif _PADDING.fullmatch(name.lower()):
        numbers = _PADS
    first = tuple(itertools.islice(itertools.cycle(numbers), count))
    return first, first[1:] + first[:1]
