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
from gradcheck_cli.infer.template import is_guessed, is_open
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.repair.correction import Correction
from gradcheck_cli.judge.repair.refitting import refitting
from gradcheck_cli.judge.repair.trial import Trial

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
    """Has no argument more axes there than in the call, or a guessed shape in place of a stated one?

    Else it is a call that function and rule take by accident.
    """
    called = {leaf.path: leaf for leaf in signature.leaves}

    def is_meant(leaf: Leaf) -> bool:
        asked = called.get(leaf.path)
        ranks = len(leaf.shape), 0 if asked is None else len(asked.shape)
        stated = asked is not None and not is_guessed(asked) and not is_open(asked)
        return ranks[0] <= ranks[1] and not (stated and is_guessed(leaf) and ranks[0] < ranks[1])

    return all(map(is_meant, trial.m.subject.leaves))


def _is_right(trial: Trial) -> bool:
    return trial.passes(trial.screens(trial.rows()))
