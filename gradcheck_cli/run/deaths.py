"""A worker's death as a finding."""

from __future__ import annotations

import signal

import msgspec

from gradcheck_cli.contract.report import Finding, Witness
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Doing, Phase
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.workers.pool import End, WorkerEnd


def death(display: str, outcome: WorkerEnd) -> Finding | None:
    """A finding for a worker that did not finish; during the import it means exit code 2."""
    if outcome.end is End.FINISHED:
        return None
    doing = outcome.doing or Doing(phase=Phase.STARTING)
    name, said = {
        End.TIMED_OUT: (
            RuleName.TIMED_OUT,
            f"it was still {doing.text} after {outcome.seconds:.0f} s",
        ),
        End.OUT_OF_MEMORY: (
            RuleName.OUT_OF_MEMORY,
            f"it used more memory than allowed while {doing.text}",
        ),
        End.GARBLED: (RuleName.WORKER_CRASHED, f"it sent garbage while {doing.text}"),
        End.DIED: (
            RuleName.WORKER_CRASHED,
            f"its process {_how(outcome.status)} while {doing.text}",
        ),
    }[outcome.end]
    about = f"`{doing.gradient}`: " if doing.gradient else ""
    found = find(name).finding(display, doing.line or 1, about + said, about=doing.gradient or "")
    return msgspec.structs.replace(found, gradient=doing.gradient)


def with_input(death: Finding, at: Doing) -> Finding:
    """The same with the point that it died of."""
    shown = ", ".join(f"{item.path} = {item.value}" for item in at.inputs if item.value is not None)
    typed = shown.replace(" = ", "=")
    return msgspec.structs.replace(
        death,
        message=f"{death.message.partition(' while ')[0].partition(' after ')[0]} at {shown}",
        witness=Witness(inputs=at.inputs, cotangent=None, argument=None, index=[]),
        reproduce=f'cgcheck {death.path}:{death.gradient} --at "{typed}"',
    )


def _how(status: int | None) -> str:
    if status is None:
        return "vanished"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with exit code {status}"
