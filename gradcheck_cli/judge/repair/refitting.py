"""Small changes of a rule's text with which it takes a call that it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Generator
from dataclasses import dataclass
from types import FunctionType

from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.repair.edits import Edit
from gradcheck_cli.judge.repair.solved import reshaping
from gradcheck_cli.judge.source.rewritten import rewritten
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_MOST_TRIES = 200


@dataclass(frozen=True, slots=True)
class Refitted:
    """A changed function of a rule, and the rule at the call that it takes now."""

    edit: Edit
    function: FunctionType
    subject: Subject


def refitting(
    gradient: CustomGradient, signature: Signature, dtype: str
) -> Generator[Refitted, None, None]:
    """The changes with which it takes the call, each while it is made.

    In the rule's own text alone: what the function calls as well would be another function.
    """
    changes = ((f, edit) for f in list(gradient.rule_code())[:1] for edit in reshaping(f))
    for function, edit in itertools.islice(changes, _MOST_TRIES):
        with rewritten(function, edit.tree) as runs:
            subject = _fitted(gradient, signature, dtype) if runs else None
            if subject is not None:
                yield Refitted(edit, function, subject)


def _fitted(gradient: CustomGradient, signature: Signature, dtype: str) -> Subject | None:
    """The rule at the call, if it takes that now."""
    try:
        subject = gradient.fit(signature, dtype)
        subject.traces()
    except (RuleError, Rejected, UserCodeError):
        return None
    return subject
