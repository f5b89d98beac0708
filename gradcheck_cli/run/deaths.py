"""A worker's death as a finding."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass

import msgspec

from gradcheck_cli.contract.report import Finding, Witness
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Doing, Phase
from gradcheck_cli.project.files import named
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.workers.pool import End, WorkerEnd

_AT_IMPORT = (
    "what runs when the module is imported belongs under `if __name__ == '__main__':`; --max-time "
    "and memory-limit in the settings raise the limits"
)


@dataclass(frozen=True, slots=True)
class Death:
    """What a worker died of: `event` as a sentence of the finding, which ends with what it was doing."""

    finding: Finding
    event: str

    @property
    def is_crash(self) -> bool:
        """Did its process end, and was not ended for a limit?"""
        return self.finding.rule == RuleName.WORKER_CRASHED

    def at(self, point: Doing) -> Death:
        """The death at the one point that it was tracked down to."""
        values = [(i.path, i.value) for i in point.inputs if i.value is not None]
        shown = ", ".join(f"{path} = {value}" for path, value in values)
        typed = ", ".join(f"{path}={value}" for path, value in values)
        target = named(self.finding.path, self.finding.gradient or "")
        finding = msgspec.structs.replace(
            self.finding,
            message=f"{self.event} at {shown}",
            witness=Witness(inputs=point.inputs, cotangent=None, argument=None, index=[]),
            reproduce=f'cgcheck {shlex.quote(target)} --at "{typed}"',
        )
        return Death(finding, self.event)


def death(display: str, end: WorkerEnd) -> Death | None:
    """A worker that did not finish; if that was during the import, the exit code is 2."""
    doing = end.doing or Doing(phase=Phase.STARTING)
    if end.end in (End.FINISHED, End.INTERRUPTED) or doing.phase is Phase.CORRECTING:
        return None  # of a changed rule: the user's own stands judged, and lacks its correction
    about = f"`{doing.gradient}`: " if doing.gradient else ""
    rule, event, then = {
        End.TIMED_OUT: (
            RuleName.TIMED_OUT,
            f"it was still {doing.text}",
            f"after {end.seconds:.0f} s",
        ),
        End.OUT_OF_MEMORY: (
            RuleName.OUT_OF_MEMORY,
            "it used more memory than allowed",
            f"while {doing.text}",
        ),
        End.GARBLED: (RuleName.WORKER_CRASHED, "it sent garbage", f"while {doing.text}"),
        End.DIED: (
            RuleName.WORKER_CRASHED,
            f"its process {_how(end.status)}",
            f"while {doing.text}",
        ),
    }[end.end]
    event = about + event
    help_ = _AT_IMPORT if doing.phase is Phase.IMPORTING else None
    finding = find(rule).finding(
        display, doing.line or 1, f"{event} {then}", about=doing.gradient or "", help=help_
    )
    return Death(msgspec.structs.replace(finding, gradient=doing.gradient), event)


def _how(status: int | None) -> str:
    if status is None:
        return "vanished"
    if status < 0:
        try:
            return f"was killed by {signal.Signals(-status).name}"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with exit code {status}"
