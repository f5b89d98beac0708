"""Errors at axes of an argument that nothing states, where the rule is right without them: they are notes.

A weight of one axis that broadcasts may be given one axis for each frame, and a rule that sums over
frames is then wrong. A `lam` may be given an array, and a penalty is one number. Nobody said that these
are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.moved_aside import moved_aside, notes_of
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.infer.fewer_axes import as_single_numbers, fewer_axes, single_by_name
from gradcheck_cli.infer.template import is_guessed
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.judge.one_for_all import gives_one_number
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.subject.protocol import Subject

_MOST_TRIES = 2  # of shapes that are judged


def unless_unmeant(
    request: Request,
    start: Opening,
    subject: Subject,
    found: GradientOutcome,
    earlier: Sequence[Failure],
) -> GradientOutcome:
    """What was found at the subject, as notes beside what is found with fewer axes, if that is no error."""
    elsewhere = start.hints.single_elsewhere
    said = single_by_name(subject, elsewhere)
    if not found.is_wrong:
        return found
    told = [*earlier, *notes_of(found)]
    guessed = _guessed(subject, found)
    single = said or _of_one_number(guessed, subject, found)
    fewer = fewer_axes(request.gradient, subject, guessed) if guessed else ()
    alone = as_single_numbers(request.gradient, subject, single, said=bool(said)) if single else ()
    tries = [(guessed, fewer), (single, alone)]
    for leaves, (lower, few) in (
        (leaves, t) for leaves, ts in tries for t in islice(ts, _MOST_TRIES)
    ):
        there = sum(attempt(request, lower, start.intents, told), GradientOutcome())
        if there.checked and not there.is_wrong:
            return there + moved_aside(found, earlier, _why(leaves, few))
    return found


def _guessed(subject: Subject, found: GradientOutcome) -> list[Leaf]:
    """The arrays that all is about for which the rule is called wrong, if their shapes are guesses."""
    whole = {part.path: leaf for leaf in subject.signature.whole_leaves for part in leaf.parts}
    arguments = [
        whole.get(f.witness.argument or "") if f.witness else None for f in found.called_wrong
    ]
    leaves = list(dict.fromkeys(leaf for leaf in arguments if leaf is not None))
    sure = None not in arguments and all(leaf.shape and is_guessed(leaf) for leaf in leaves)
    return leaves if sure else []


def _of_one_number(leaves: Sequence[Leaf], subject: Subject, found: GradientOutcome) -> list[Leaf]:
    """The arrays all elements of which get one number, if that is so for each: the rule is written for single numbers.

    Beside them stands another array that is as large: what has none is the function's own.
    """
    trials, paths = found.trials[-1:], {leaf.path for leaf in leaves}
    most = max((len(leaf.shape) for leaf in leaves), default=0)
    others = [x for x in subject.signature.whole_leaves if x.path not in paths]
    if not any(len(other.shape) >= most for other in others):
        return []
    alike = [all(gives_one_number(t.m, leaf.path) for t in trials) for leaf in leaves]
    return list(leaves) if trials and alike and all(alike) else []


def _why(leaves: Sequence[Leaf], lower: Sequence[Leaf]) -> str:
    """At which axes it was found, and what to write if these are meant."""
    many, few = (
        " and ".join(f"{leaf.path}[{_axes(leaf)}]" for leaf in each) for each in (leaves, lower)
    )
    specs = ", ".join(
        f"{leaf.path}={'c64' if leaf.is_complex else 'f32'}[{_axes(leaf)}]" for leaf in leaves
    )
    return f"at {many}, which nothing states; at {few} it is right (if it is meant: `# cgcheck: {specs}`)"


def _axes(leaf: Leaf) -> str:
    return " ".join(map(str, leaf.shape))
