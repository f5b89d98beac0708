"""What a rule lacks that raises where its function runs, or gives a gradient of another shape: a sum over the batch, an axis kept.

Each change is tried at the very inputs that the rule refuses; where it takes them then, it is held to all laws there,
and to the truth at the inputs that it took before.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.diagnose.correction import Correction
from gradcheck_cli.judge.diagnose.refitting import refitting
from gradcheck_cli.judge.diagnose.trial import Trial
from gradcheck_cli.judge.laws.formula import FORMULA

_MOST_JUDGED = 8  # of the changes with which the rule takes its inputs


def refitted(
    request: Request, signature: Signature, dtype: str, trials: Sequence[Trial]
) -> Correction | None:
    """The first change with which the rule takes what its function takes, and is right there and at these trials."""
    right, points = None, 0
    with closing(refitting(request.gradient, signature, dtype)) as changes:
        for changed in itertools.islice(changes, _MOST_JUDGED):
            if not all(_is_right(trial) for trial in trials if _is_meant(trial, signature)):
                continue
            outcome = sum(attempt(request, changed.subject, (), ()), GradientOutcome())
            if outcome.law(FORMULA.name) is Outcome.PASS and not outcome.is_wrong:
                right, points = changed, outcome.points
                break
    return None if right is None else Correction.of(right.edit, right.function, points)


def _is_meant(trial: Trial, signature: Signature) -> bool:
    """Has no argument more axes there than in the call? Else it is one that function and rule take by accident."""
    ranks = {leaf.path: len(leaf.shape) for leaf in signature.leaves}
    taken = trial.m.subject.leaves
    return all(len(leaf.shape) <= ranks.get(leaf.path, 0) for leaf in taken)


def _is_right(trial: Trial) -> bool:
    return trial.passes(trial.screens(trial.rows()))
