"""What becomes of signatures that the function takes and its rule does not: a finding, or what is in the way."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.check.invented import softened
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import LawResult, Outcome, Severity
from gradcheck_cli.infer.single_numbers import broadcast_refused
from gradcheck_cli.inputs.signature import Fixed, Hints, Signature
from gradcheck_cli.judge import unjudged
from gradcheck_cli.judge.laws.structure import STRUCTURE_LAW
from gradcheck_cli.subject.environment import lacking
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import RuleError


def broken(request: Request, signature: Signature, error: RuleError, dtype: str) -> GradientOutcome:
    """The function takes the signature and its rule raises, or gives what no gradient can be."""
    obstacle = _obstacle(signature, error)
    if obstacle:
        why = f"at {signature.describe()}, {obstacle}"
        return GradientOutcome(reasons=(why,), beyond_inputs=lacking(error.error) is not None)
    # With several arguments, the shapes that were made up may be ones that nobody means.
    sure = len(signature.whole_leaves) == 1 or error.certain
    severity = Severity.ERROR if sure else Severity.WARNING
    structure = LawResult(law=STRUCTURE_LAW, outcome=Outcome.FAIL)
    finding = refused(request, signature, error, severity, dtype)
    wanted = ((signature, dtype),) if sure else ()
    failed = GradientOutcome(checked=True, laws=(structure,), refused=wanted)
    return finding + softened(request, signature, failed)


def refused(
    request: Request, signature: Signature, error: RuleError, severity: Severity, dtype: str
) -> GradientOutcome:
    """A finding beside what was judged at other signatures; none, where it says nothing of the rule."""
    if _obstacle(signature, error):
        return GradientOutcome()
    finding = unjudged.refused(request.gradient, request.site, signature, error, severity, dtype)
    return softened(request, signature, GradientOutcome(findings=(finding,)))


def refused_broadcast(
    request: Request, subjects: Sequence[Subject], dtype: str, hints: Hints
) -> GradientOutcome:
    """A note, if the function takes a single number beside arrays and its rule does not."""
    narrow = broadcast_refused(request.gradient, subjects, dtype, hints)
    if narrow is None:
        return GradientOutcome()
    signature, error = narrow
    return refused(request, signature, error, Severity.NOTE, dtype)


def _obstacle(signature: Signature, error: RuleError) -> str:
    """Why what the rule raises is no fault of it: something that is not here, or a value that nobody means."""
    needed = lacking(error.error)
    if needed is not None:
        return f"the rule needs {needed}, which is not here: {error.message}"
    guesses = ((n, v) for n, v in signature.arguments if isinstance(v, Fixed) and v.is_guess)
    chosen = [f"{name}={value.text}" for name, value in guesses]
    if chosen and not error.certain and not error.silent:
        return f"with {', '.join(chosen)}, which cgcheck chose, the rule raises {error.message}"
    return ""
