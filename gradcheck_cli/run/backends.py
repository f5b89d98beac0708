"""One gradient on several backends: what is the same is reported once, what differs is a finding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from gradcheck_cli.contract.report import Finding, Severity, Status, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.framework_marks import BACKENDS
from gradcheck_cli.project.rule_pages import find

RULE = RuleName.BACKEND_DEPENDENT_RULE


def across(gradients: Sequence[Checked]) -> Iterator[Checked]:
    """All gradients; those of one definition stand together, their equal findings are one."""
    groups: dict[tuple[str, str, int], list[Checked]] = {}
    for checked in gradients:
        g = checked.gradient
        groups.setdefault((g.path, g.qualname, g.line), []).append(checked)
    for group in groups.values():
        if len(group) > 1 and group[0].gradient.framework in BACKENDS:
            yield from _compared(group)
        else:
            yield from group


def _compared(group: Sequence[Checked]) -> Iterator[Checked]:
    names = [c.gradient.backend for c in group if c.gradient.status is Status.CHECKED]
    distinct: list[Finding] = []
    for checked in group:
        findings = []
        for finding in checked.findings:
            shared = _shared(finding, group, names)
            if shared not in distinct:
                distinct.append(shared)
            findings.append(distinct[distinct.index(shared)])  # one object for all of them
        gradient = checked.gradient
        if any(f.rule == RULE for f in findings):
            gradient = msgspec.structs.replace(gradient, verdict=Verdict.WRONG)
        yield msgspec.structs.replace(checked, gradient=gradient, findings=findings)


def _shared(finding: Finding, group: Sequence[Checked], names: Sequence[str]) -> Finding:
    """The finding with all backends that it was made on, as the first of them has it."""
    with_it = [c for c in group if any(_same(finding, f) for f in c.findings)]
    first = next(f for f in with_it[0].findings if _same(finding, f))
    on = [c.gradient.backend for c in with_it]
    merged = msgspec.structs.replace(first, backends=on)
    fine = [name for name in names if name not in on and not _fails(group, name, finding.rule)]
    if not fine or not find(finding.rule).any_backend or finding.severity is not Severity.ERROR:
        return merged
    rule = find(RULE)
    return msgspec.structs.replace(
        merged, rule=rule.name, code=rule.code, help=rule.help,
        message=f"right on {_list(fine)}, not on {_list(on)}: {finding.message}",
    )  # fmt: skip


def _same(a: Finding, b: Finding) -> bool:
    return (a.rule, a.severity, a.message) == (b.rule, b.severity, b.message)


def _fails(group: Sequence[Checked], name: str, rule: str) -> bool:
    """Does this backend fail by the same rule, in other words?"""
    mine = next(c for c in group if c.gradient.backend == name)
    return any(f.rule == rule and f.severity is Severity.ERROR for f in mine.findings)


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
