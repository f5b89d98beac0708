"""Errors at axes of an argument that nothing states, where the rule is right without them: they are notes.

A weight of one axis that broadcasts may be given one axis for each frame, and a rule that sums over
frames is then wrong. Nobody said that it is meant for that.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.invented import as_notes
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Severity, Verdict
from gradcheck_cli.infer.fewer_axes import all_alike, fewer_axes
from gradcheck_cli.infer.template import is_guessed
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.verdict import verdict
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
    guessed = _guessed(subject, found)
    if guessed is None:
        return found
    told = [*earlier, *(f for f in found.failures if f.severity is Severity.NOTE)]
    if _is_wrong_alike(request, start, subject, guessed):
        return found
    tries = fewer_axes(request.gradient, subject, guessed)
    for fewer, lower in itertools.islice(tries, _MOST_TRIES):
        there = sum(attempt(request, fewer, start.intents, told), GradientOutcome())
        if there.checked and verdict(there.findings) is not Verdict.WRONG:
            return there + _moved_aside(found, guessed, lower)
    return found


def _is_wrong_alike(request: Request, start: Opening, subject: Subject, leaf: Leaf) -> bool:
    """Is it wrong where all arrays are of one shape, too? What takes these is meant for any number of axes."""
    alike = all_alike(request.gradient, subject, leaf)
    if alike is None or alike is subject:
        return alike is subject and sum(bool(each.shape) for each in subject.leaves) > 1
    there = sum(attempt(request, alike, start.intents, ()), GradientOutcome())
    return there.checked and verdict(there.findings) is Verdict.WRONG


def _guessed(subject: Subject, found: GradientOutcome) -> Leaf | None:
    """The array that all errors are about, if its shape is a guess."""
    wrong = [f for f in found.findings if f.severity is not Severity.NOTE]
    whole = {part.path: leaf for leaf in subject.signature.whole_leaves for part in leaf.parts}
    arguments = {whole.get(f.witness.argument or "") if f.witness else None for f in wrong}
    if verdict(wrong) is not Verdict.WRONG or len(arguments) != 1:
        return None
    leaf = arguments.pop()
    return leaf if leaf is not None and len(leaf.shape) > 1 and is_guessed(leaf) else None


def _moved_aside(found: GradientOutcome, leaf: Leaf, lower: Leaf) -> GradientOutcome:
    """What was found, as notes that say at which axes, and what to write if these are meant.

    The laws are judged at the other shapes.
    """
    many, few = (" ".join(map(str, each.shape)) for each in (leaf, lower))
    kind = "c64" if leaf.is_complex else "f32"
    why = (
        f"at {leaf.path}[{many}], which nothing states; at {leaf.path}[{few}] it is right "
        f"(if it is meant: `# cgcheck: {leaf.path}={kind}[{many}]`)"
    )
    return replace(as_notes(found, why), laws=(), trials=(), inputs=())
