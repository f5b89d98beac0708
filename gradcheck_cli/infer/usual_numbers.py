"""Whole numbers that a parameter may take by its name, where it is known to be one."""

from __future__ import annotations

from gradcheck_cli.inputs.names import fixed_by_name, is_axis

_USUAL = (3, 2)


def usual_numbers(name: str) -> tuple[bool, tuple[int, ...]]:
    """Is it an axis, and which whole numbers is it likely to be?"""
    suggested = (fixed.value for fixed in fixed_by_name(name, (), None))
    numbers = tuple(v for v in suggested if isinstance(v, int) and not isinstance(v, bool))
    lowered = name.lower().strip("_")
    axis = is_axis(name) or lowered.endswith("_axis")
    return axis, numbers or ((-1, 0) if axis else _USUAL)
