"""The signatures that a gradient takes in one dtype, and those at which its rule is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.adequacy.closed import closed
from gradcheck_cli.check.announced import announced
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.refused import broken, refused
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.signature import Hints, Signature, root
from gradcheck_cli.judge.raised import within
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
    outcome = GradientOutcome(showings=closed(probed.closed))
    if probed.broken is not None:
        outcome += broken(request, *_meant(request, *probed.broken, hints), dtype)
    elif probed.misfit is not None:
        outcome += refused(request, *probed.misfit, Severity.WARNING, dtype)
    if probed.broken is None and not probed.subjects:
        outcome += GradientOutcome(reasons=(f"{dtype}: {probed.reason}",))
    return Signatures(probed.subjects, outcome)


def _meant(
    request: Request, signature: Signature, error: RuleError, hints: Hints
) -> tuple[Signature, RuleError]:
    """What the rule refuses; surely, where the user states every array, and it is not the rule itself that raises.

    What it raises itself may be about a number that cgcheck chose.
    """
    stated = all(root(leaf.path) in hints.specs for leaf in signature.whole_leaves)
    own = within(error.frames, request.gradient)
    return signature, error.surely() if stated and not own else error
