"""What a rule lacks that raises where its function runs, or gives a gradient of another shape: a sum over the batch, an axis kept.

Each change is tried at the very inputs that the rule refuses; where it takes them then, it is held to all laws there.
"""

from __future__ import annotations

import itertools

from gradcheck_cli.check.attempt import attempt
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Outcome
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.diagnose.correction import Correction
from gradcheck_cli.judge.diagnose.rewritten import rewritten
from gradcheck_cli.judge.diagnose.solved import reshaping
from gradcheck_cli.judge.diagnose.written import written
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_MOST_TRIES = 200  # of changes
_MOST_JUDGED = 8  # of those with which the rule takes its inputs


def refitted(request: Request, signature: Signature, dtype: str) -> Correction | None:
    """The first change with which the rule takes what its function takes, and is right there."""
    changes = ((f, edit) for f in written(request.gradient) for edit in reshaping(f))
    judged = iter(range(_MOST_JUDGED))
    for function, edit in itertools.islice(changes, _MOST_TRIES):
        with rewritten(function, edit.tree) as runs:
            subject = _fitted(request, signature, dtype) if runs else None
            if subject is None:
                continue
            if next(judged, None) is None:
                return None
            outcome = sum(attempt(request, subject, (), ()), GradientOutcome())
        if outcome.law(FORMULA.name) is Outcome.PASS and not outcome.is_wrong:
            return Correction.of(edit, function, outcome.points)
    return None


def _fitted(request: Request, signature: Signature, dtype: str) -> Subject | None:
    """The rule at these inputs, if it takes them now."""
    try:
        subject = request.gradient.fit(signature, dtype)
        subject.traces()
    except (RuleError, Rejected, UserCodeError):
        return None
    return subject
