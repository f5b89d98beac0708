"""What a rule lacks that raises where its function runs, or gives a gradient of another shape: a sum over the batch, an axis kept.

Each change is tried at the very inputs that the rule refuses; where it takes them then, it is held to all laws there.
"""

from __future__ import annotations

import itertools
from contextlib import closing

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.diagnose.correction import Correction
from gradcheck_cli.judge.diagnose.refitting import refitting
from gradcheck_cli.judge.laws.formula import FORMULA

_MOST_JUDGED = 8  # of the changes with which the rule takes its inputs


def refitted(request: Request, signature: Signature, dtype: str) -> Correction | None:
    """The first change with which the rule takes what its function takes, and is right there."""
    with closing(refitting(request.gradient, signature, dtype)) as changes:
        for changed in itertools.islice(changes, _MOST_JUDGED):
            outcome = sum(attempt(request, changed.subject, (), ()), GradientOutcome())
            if outcome.law(FORMULA.name) is Outcome.PASS and not outcome.is_wrong:
                return Correction.of(changed.edit, changed.function, outcome.points)
    return None
