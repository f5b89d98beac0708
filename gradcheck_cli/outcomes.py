"""What ends mean: a worker's death as a finding, findings as an exit code."""

from __future__ import annotations

import signal
from collections.abc import Sequence

import msgspec

from gradcheck_cli.comments import Ignore
from gradcheck_cli.config import Settings
from gradcheck_cli.findings_filter import suppressed
from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.rulebook import find
from gradcheck_cli.runner.pool import End, Outcome
from gradcheck_cli.verdict import verdict
from gradcheck_cli.words import (
    Checked,
    Doing,
    Finding,
    Gradient,
    NotCovered,
    Phase,
    Severity,
    Status,
    Verdict,
    Witness,
)

OK, FINDINGS, COULD_NOT_CHECK, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 130


def death(display: str, outcome: Outcome) -> Finding | None:
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


def indexed(checked: Checked, numbers: Sequence[int], ignores: Sequence[Ignore]) -> Gradient:
    """The gradient with the numbers of its findings.

    What is not shown still counts for the verdict; what is suppressed with a reason is intended.
    """
    found = checked.gradient
    new = found.verdict
    silenced = [f for f in checked.findings if suppressed(f, ignores)]
    if silenced and found.status is Status.CHECKED:
        new = verdict(f for f in checked.findings if f not in silenced)
        if verdict(silenced).rank > new.rank:
            new = max(new, Verdict.INTENDED, key=lambda v: v.rank)
    return msgspec.structs.replace(found, findings=list(numbers), verdict=new)


def numbered(findings: Sequence[Finding], gradient: int) -> list[Finding]:
    return [msgspec.structs.replace(f, gradient_index=gradient) for f in findings]


def unused(ignores: Sequence[Ignore], used: set[tuple[int, str]], display: str) -> list[Finding]:
    """Suppressions that suppressed nothing."""
    rule = find(RuleName.UNUSED_IGNORE)
    return [
        rule.finding(display, ignore.line, f"`ignore[{name}]` suppresses nothing", about=name)
        for ignore in ignores
        for name in ignore.rules
        if ignore.line and (ignore.line, name) not in used  # the settings' own stand in no line
    ]


def exit_code(
    gradients: Sequence[Gradient],
    findings: Sequence[Finding],
    not_covered: Sequence[NotCovered],
    settings: Settings,
) -> int:
    """The highest that applies."""
    code = OK
    if settings.fail_on != "never":
        least = Severity(settings.fail_on).rank
        if settings.strict:
            least = min(least, Severity.WARNING.rank)
        if any(f.severity.rank >= least for f in findings if not find(f.rule).could_not_check):
            code = FINDINGS
        if settings.strict and (not_covered or _open(gradients)):
            code = FINDINGS
    if any(could_not(f) for f in findings):
        code = COULD_NOT_CHECK
    if any(f.rule == RuleName.INTERNAL_ERROR for f in findings):
        code = INTERNAL
    return code


def _open(gradients: Sequence[Gradient]) -> bool:
    return any(g.status is Status.UNCHECKED or g.verdict is Verdict.INCONCLUSIVE for g in gradients)


def could_not(finding: Finding) -> bool:
    """Never imported, or dead before any gradient was in hand."""
    rule = find(finding.rule)
    if rule.could_not_check:
        return finding.severity is Severity.ERROR
    return rule.death and finding.gradient is None
