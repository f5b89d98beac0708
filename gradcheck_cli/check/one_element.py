"""Errors at an axis of one element along which the function reduces an array by itself: notes, where it is right at longer ones.

The norm of a vector of one number is its size. That such a vector is laid along all others nobody means.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.check.moved_aside import moved_aside
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.infer.template import is_guessed
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.own_axes import own_axes
from gradcheck_cli.subject.protocol import Subject


def unless_of_one_element(
    subject: Subject, found: GradientOutcome, before: GradientOutcome, earlier: Sequence[Failure]
) -> GradientOutcome:
    """What was found at the subject, as notes if such an axis is of one element here, and was longer where all was right."""
    if not found.is_wrong or not before.checked or before.is_wrong:
        return found
    short = [leaf for place, leaf in enumerate(subject.leaves) if _is_short(subject, place, before)]
    return moved_aside(found, earlier, _why(short)) if short else found


def _is_short(subject: Subject, place: int, before: GradientOutcome) -> bool:
    """Has an argument, of which nothing states the shape, one element along such an axis, and had it more before?"""
    leaf, program = subject.leaves[place], subject.traces().primal
    ones = [axis for axis, n in enumerate(leaf.shape) if n == 1]
    if program is None or not ones or not is_guessed(leaf):
        return False
    others = [i.shape for each in before.inputs for i in each if i.path == leaf.path]
    own = own_axes(program, place)
    return any(
        axis in own and len(shape) == len(leaf.shape) and shape[axis] > 1
        for axis in ones
        for shape in others
    )


def _why(leaves: Sequence[Leaf]) -> str:
    shapes = " and ".join(f"{leaf.path}[{' '.join(map(str, leaf.shape))}]" for leaf in leaves)
    return f"at {shapes}, of one element along an axis that the function reduces; at longer ones it is right"
