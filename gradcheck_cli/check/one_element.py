"""Errors at an axis of one element along which the function reduces an array by itself: notes, where it is right at longer ones.

The norm of a vector of one number is its size. That such a vector is laid along all others nobody means.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.check.moved_aside import moved_aside
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.infer.template import is_guessed
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.own_axes import own_axes
from gradcheck_cli.subject.protocol import Subject


def unless_of_one_element(
    subject: Subject, found: GradientOutcome, before: GradientOutcome, earlier: Sequence[Failure]
) -> GradientOutcome:
    """What was found at the subject, as notes if it is the formula of such an array, which was longer where all was right."""
    if not found.is_wrong or not before.formula_holds:
        return found
    short = [leaf for place, leaf in enumerate(subject.leaves) if _is_short(subject, place, before)]
    paths = {leaf.path for leaf in short}
    blamed = {f.witness.argument if f.witness else None for f in found.called_wrong}
    of_formula = all(f.rule == RuleName.GRADIENT_MISMATCH for f in found.called_wrong)
    if not short or not of_formula or not paths.issuperset(blamed):
        return found
    return moved_aside(found, earlier, _why(short))


def _is_short(subject: Subject, place: int, before: GradientOutcome) -> bool:
    """Has an argument, of which nothing states the shape, one element along such an axis, beside a longer one, and had it more before?"""
    leaf, program = subject.leaves[place], subject.traces().primal
    ones = [axis for axis, n in enumerate(leaf.shape) if n == 1]
    if program is None or not ones or not is_guessed(leaf):
        return False
    reduced = own_axes(program, len(subject.outputs), place)
    own = [axis for axis in ones if axis in reduced]
    return any(_laid_along(subject, leaf, axis) and _was_longer(subject, leaf, axis, before) for axis in own)  # fmt: skip


def _laid_along(subject: Subject, leaf: Leaf, axis: int) -> bool:
    """Has another array more elements along the axis, counted from the last one?"""
    behind = len(leaf.shape) - axis
    return any(len(other.shape) >= behind and other.shape[-behind] > 1 for other in subject.leaves)


def _was_longer(subject: Subject, leaf: Leaf, axis: int, before: GradientOutcome) -> bool:
    """Was there a call in which this axis alone was longer, and every other argument had as many axes?"""
    ranks = {other.path: len(other.shape) for other in subject.leaves}
    for inputs in before.inputs:
        shapes = {i.path: i.shape for i in inputs if i.path in ranks}
        own = shapes.get(leaf.path, [])
        alike = all(len(shape) == ranks[path] for path, shape in shapes.items())
        if alike and len(own) == len(leaf.shape) and own[axis] > 1:
            return True
    return False


def _why(leaves: Sequence[Leaf]) -> str:
    shapes = " and ".join(f"{leaf.path}[{' '.join(map(str, leaf.shape))}]" for leaf in leaves)
    return f"at {shapes}, of one element along an axis that the function reduces; at longer ones it is right"
