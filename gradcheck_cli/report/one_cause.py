"""Findings that are one fault seen twice, told in one block: value and gradient of one expression, arguments that one change mends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName

# What follows which finding of the same cause: where the value overflows, so does the gradient.
_LEADERS = {
    RuleName.NON_FINITE_VALUE: RuleName.NON_FINITE_GRADIENT,
    RuleName.IMPRECISE_VALUE: RuleName.IMPRECISE_GRADIENT,
    RuleName.NONLINEAR_COTANGENT: RuleName.GRADIENT_MISMATCH,
}


def with_followers(findings: Sequence[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """The findings that get a block of their own, each with those that are told in it."""
    followers = _followers(findings)
    blocks: dict[int, tuple[Finding, list[Finding]]] = {
        id(finding): (finding, []) for finding in findings if id(finding) not in followers
    }
    for finding in findings:
        if id(finding) in followers:
            blocks[id(_first(finding, followers))][1].append(finding)
    return list(blocks.values())


def _followers(findings: Sequence[Finding]) -> dict[int, Finding]:
    """For each finding that is told in the block of another, by its identity, that one: of the same cause, and no less grave."""
    by_repair: dict[str, Finding] = {}
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_repair.setdefault(_repair(finding), finding)
        by_rule.setdefault(finding.rule, []).append(finding)
    found: dict[int, Finding] = {}
    for finding in findings:
        leader = _leader(finding, by_rule) or (
            by_repair[_repair(finding)] if finding.edits else None
        )
        # Nothing leads what it is told by itself.
        if leader is not None and _first(leader, found) is not finding:
            found[id(finding)] = leader
    return found


def _first(finding: Finding, followers: Mapping[int, Finding]) -> Finding:
    """The one in whose block it is told, which may follow another one itself."""
    while (leader := followers.get(id(finding))) is not None:
        finding = leader
    return finding


def _repair(finding: Finding) -> str:
    """What two findings have in common that one change mends: the gradients of two arguments, or what is wrong at large and at small inputs."""
    return repr((finding.severity, finding.edits))


def _leader(finding: Finding, by_rule: Mapping[str, Sequence[Finding]]) -> Finding | None:
    """The finding of another rule in whose block this one is told."""
    rule = _LEADERS.get(RuleName(finding.rule))
    graver = (f for f in by_rule.get(rule or "", ()) if f.severity.rank >= finding.severity.rank)
    return next((f for f in graver if _is_one_cause(f, finding)), None)


def _is_one_cause(one: Finding, other: Finding) -> bool:
    """Are they of one expression, mended by one change, or seen at the very same inputs? What is to be written is told."""
    if other.fix and other.fix != one.fix:
        return False
    if one.cause is not None and other.cause is not None:
        return (one.cause.line, one.cause.expression) == (other.cause.line, other.cause.expression)
    if one.fix and one.fix == other.fix:
        return True
    at = [f.witness.inputs for f in (one, other) if f.witness is not None]
    return len(at) == 2 and at[0] == at[1]
