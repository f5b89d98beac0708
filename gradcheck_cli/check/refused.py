"""What becomes of signatures that the function takes and its rule does not: a finding at them."""

from __future__ import annotations

from gradcheck_cli.check.invented import softened
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import LawResult, Outcome, Severity
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge import unjudged
from gradcheck_cli.judge.laws.structure import STRUCTURE_LAW
from gradcheck_cli.subject.refusals import RuleError


def broken(request: Request, signature: Signature, error: RuleError, dtype: str) -> GradientOutcome:
    """The function takes the signature and the framework refuses the rule."""
    # With several arguments, the shapes that were made up may be ones that nobody means.
    sure = len(signature.leaves) == 1 or error.certain
    severity = Severity.ERROR if sure else Severity.WARNING
    structure = LawResult(law=STRUCTURE_LAW, outcome=Outcome.FAIL)
    finding = refused(request, signature, error, severity, dtype)
    failed = GradientOutcome(checked=True, laws=(structure,))
    return finding + softened(request, signature, failed)


def refused(
    request: Request, signature: Signature, error: RuleError, severity: Severity, dtype: str
) -> GradientOutcome:
    finding = unjudged.refused(request.gradient, request.site, signature, error, severity, dtype)
    return softened(request, signature, GradientOutcome(findings=(finding,)))
