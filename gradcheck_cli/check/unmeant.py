"""Errors at axes of an argument that nothing states, where the rule is right without them: they are notes.

A weight of one axis that broadcasts may be given one axis for each frame, and a rule that sums over
frames is then wrong. A `lam` may be given an array, and a penalty is one number. Nobody said that these
are meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.invented import as_notes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Severity
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
    told = [*earlier, *(f for f in found.failures if f.severity is Severity.NOTE)]
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
            return there + _moved_aside(_not_told(found, earlier), leaves, few)
    return found


def _not_told(found: GradientOutcome, earlier: Sequence[Failure]) -> GradientOutcome:
    """What was found, without errors all of which were moved aside at other settings, too."""
    errors = [f for f in found.failures if f.severity is Severity.ERROR]
    if not all(any(old.rule == f.rule and old.ground == f.ground for old in earlier) for f in errors):  # fmt: skip
        return found
    return replace(found, findings=tuple(f for f in found.findings if f not in found.called_wrong))


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


def _moved_aside(
    found: GradientOutcome, leaves: Sequence[Leaf], lower: Sequence[Leaf]
) -> GradientOutcome:
    """What was found, as notes that say at which axes, and what to write if these are meant.

    The laws are judged at the other shapes. An error at other settings is told all the same: there the rule
    may be wrong with fewer axes, too.
    """
    many, few = (
        " and ".join(f"{leaf.path}[{_axes(leaf)}]" for leaf in each) for each in (leaves, lower)
    )
    specs = ", ".join(
        f"{leaf.path}={'c64' if leaf.is_complex else 'f32'}[{_axes(leaf)}]" for leaf in leaves
    )
    why = f"at {many}, which nothing states; at {few} it is right (if it is meant: `# cgcheck: {specs}`)"
    failures = tuple(replace(f, severity=Severity.NOTE) for f in found.failures)
    return replace(as_notes(found, why), failures=failures, laws=(), trials=(), inputs=())


def _axes(leaf: Leaf) -> str:
    return " ".join(map(str, leaf.shape))
