"""The inputs of a gradient alone, with where they come from: nothing is checked."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.hints import opening
from gradcheck_cli.check.listed_inputs import listed_inputs
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Checked, Phase
from gradcheck_cli.infer.probing import probe


def only_inputs(request: Request) -> Checked:
    """The signatures that would be tried in the first dtype."""
    request.progress.doing(Phase.INPUTS)
    start = opening(request)
    probed = probe(request.gradient, request.task.dtypes[0], start.hints)
    outcome = start.outcome + GradientOutcome(
        checked=bool(probed.subjects),
        reasons=(probed.reason,),
        inputs=tuple(i for s in probed.subjects for i in listed_inputs(s, None)),
    )
    listed = checked(request, outcome, start.intents)
    return replace(listed, gradient=replace(listed.gradient, verdict=None, evidence=None))
