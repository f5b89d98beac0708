"""The signatures that a gradient takes in one dtype, and those at which its rule is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.check.announced import announced
from gradcheck_cli.check.invented import softened
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import LawResult, Outcome, Severity
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.infer.probing import broadcast_refused, probe
from gradcheck_cli.inputs.signature import Hints, Signature
from gradcheck_cli.judge.laws.structure import STRUCTURE_LAW
from gradcheck_cli.judge.unjudged import refused
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import RuleError


@dataclass(frozen=True, slots=True)
class Signatures:
    """Subjects that function and rule accept; `outcome` is what came of looking for them."""

    subjects: Sequence[Subject]
    outcome: GradientOutcome


def signatures(request: Request, dtype: str, hints: Hints) -> Signatures:
    """Subjects in one dtype, or why there are none."""
    request.progress.doing(Phase.INPUTS)
    with request.progress.timing("inputs"):
        probed = probe(announced(request), dtype, hints)
    outcome = GradientOutcome()
    if probed.broken is not None:
        outcome = _broken(request, *probed.broken, dtype)
    elif probed.misfit is not None:
        outcome = _refused(request, *probed.misfit, Severity.WARNING, dtype)
    if probed.broken is None and not probed.subjects:
        outcome += GradientOutcome(reasons=(f"{dtype}: {probed.reason}",))
    return Signatures(probed.subjects, outcome)


def refused_broadcast(request: Request, subjects: Sequence[Subject], dtype: str) -> GradientOutcome:
    """A note, if the function takes a single number beside arrays and its rule does not."""
    narrow = broadcast_refused(request.gradient, subjects, dtype)
    if narrow is None:
        return GradientOutcome()
    return _refused(request, *narrow, Severity.NOTE, dtype)


def _broken(
    request: Request, signature: Signature, error: RuleError, dtype: str
) -> GradientOutcome:
    """The function takes the signature and the framework refuses the rule."""
    # With several arguments, the shapes that were made up may be ones that nobody means.
    sure = len(signature.leaves) == 1 or error.certain
    severity = Severity.ERROR if sure else Severity.WARNING
    structure = LawResult(law=STRUCTURE_LAW, outcome=Outcome.FAIL)
    finding = _refused(request, signature, error, severity, dtype)
    failed = GradientOutcome(checked=True, laws=(structure,))
    return finding + softened(request, signature, failed)


def _refused(
    request: Request, signature: Signature, error: RuleError, severity: Severity, dtype: str
) -> GradientOutcome:
    finding = refused(request.gradient, request.site, signature, error, severity, dtype)
    return softened(request, signature, GradientOutcome(findings=(finding,)))
