"""A rule that is right only because it takes a wrong inner rule at its word inherits the error (SEMANTICS D1)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gradcheck_cli.contract.report import (
    Finding,
    Gradient,
    Outcome,
    Severity,
    Status,
    Verdict,
)
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.run.target_file import File

RULE = RuleName.INHERITED_FORMULA


def inherit(files: Sequence[File]) -> None:
    """Give the gradients of all files that trust a wrong one the error that they inherit, and so on."""
    before: list[list[Checked]] = []
    while before != (before := [list(file.gradients) for file in files]):
        every = [checked.gradient for gradients in before for checked in gradients]
        judged = [gradient for gradient in every if gradient.status is Status.CHECKED]
        for file in files:
            file.gradients = [_with_what_it_inherits(each, judged) for each in file.gradients]


def _with_what_it_inherits(checked: Checked, judged: Sequence[Gradient]) -> Checked:
    findings = [_inherited(finding, checked.gradient, judged) for finding in checked.findings]
    if findings == checked.findings:
        return checked
    laws = [
        replace(law, outcome=Outcome.FAIL) if law.law == "formula" else law
        for law in checked.gradient.laws
    ]
    gradient = replace(checked.gradient, verdict=Verdict.WRONG, laws=laws)
    return replace(checked, findings=findings, gradient=gradient)


def _inherited(finding: Finding, gradient: Gradient, judged: Sequence[Gradient]) -> Finding:
    """The note that inner rules are trusted, as an error where one of these is wrong."""
    inner = (_inner(name, gradient, judged) for name in finding.trusts)
    wrong = [each for each in inner if each is not None and each.verdict is Verdict.WRONG]
    if not wrong or finding.rule == RULE:
        return finding
    page, first = find(RULE), wrong[0]
    where = "" if first.path == gradient.path else f" of {first.path}"
    return replace(
        finding,
        rule=page.name,
        code=page.code,
        severity=Severity.ERROR,
        message=f"inherits the wrong formula of `{first.name}`, line {first.line}{where}",
        help=f"mend `{first.name}`: this rule is what autodiff makes of it",
    )


def _inner(name: str, gradient: Gradient, judged: Sequence[Gradient]) -> Gradient | None:
    """The gradient of this name on the same backend: the file's own, or the only one that there is."""
    called = [g for g in judged if g.name == name and g.backend == gradient.backend]
    own = [g for g in called if g.path == gradient.path]
    return next(iter(own or (called if len(called) == 1 else [])), None)
