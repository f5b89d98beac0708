"""Subjects of signatures that function and rule take."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from gradcheck_cli.check.request import Request
from gradcheck_cli.infer.fitted import fitted
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

REFUSED = (Rejected, RuleError, UserCodeError)


def fitting(request: Request, last: Subject, signatures: Iterable[Signature]) -> Iterator[Subject]:
    """The subjects of those signatures that function and rule take."""
    for signature in signatures:
        with suppress(*REFUSED):
            yield fitted(request.gradient, signature, last.dtype)
