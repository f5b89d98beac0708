"""The inputs of a gradient alone, with where they come from: nothing is checked."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.check.announced import announced
from gradcheck_cli.check.candidates import candidates
from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.hints import opening
from gradcheck_cli.check.listed_inputs import listed_inputs
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Checked, Phase
from gradcheck_cli.infer.probing import probe


def only_inputs(request: Request) -> Checked:
    """The signatures that would be tried in the first dtype, and what was tried beside them."""
    request.progress.doing(Phase.INPUTS)
    start = opening(request)
    probed = probe(announced(request), request.task.dtypes[0], start.hints)
    parameters = request.gradient.parameters()
    outcome = start.outcome + GradientOutcome(
        checked=bool(probed.subjects),
        reasons=(probed.reason,),
        inputs=tuple(listed_inputs(s, parameters, None) for s in probed.subjects),
    )
    listed = checked(request, start, outcome)
    gradient = replace(listed.gradient, verdict=None, evidence=None)
    return replace(listed, gradient=gradient, candidates=candidates(request, start, probed))
