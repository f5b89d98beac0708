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
    blocks: list[tuple[Finding, list[Finding]]] = []
    followers = {id(f): leader for f in findings if (leader := _leader(f, findings)) is not None}
    for finding in findings:
        if id(finding) not in followers:
            mine = [f for f in findings if _first(f, followers) is finding and f is not finding]
            blocks.append((finding, mine))
    return blocks


def _first(finding: Finding, followers: Mapping[int, Finding]) -> Finding:
    """The one in whose block it is told, which may follow another one itself."""
    while (leader := followers.get(id(finding))) is not None:
        finding = leader
    return finding


def _leader(finding: Finding, findings: Sequence[Finding]) -> Finding | None:
    """The finding of the same cause, no less grave, in whose block this one is told."""
    rule = _LEADERS.get(RuleName(finding.rule))
    graver = [f for f in findings if f.severity.rank >= finding.severity.rank]
    first = next((f for f in graver if _is_one_repair(f, finding)), finding)
    if first is not finding:
        return first
    return next((f for f in graver if f.rule == rule and _is_one_cause(f, finding)), None)


def _is_one_repair(one: Finding, other: Finding) -> bool:
    """Does one change mend both, of the same rule: the gradients of two arguments?"""
    both = (one.rule, one.edits) == (other.rule, other.edits)
    return both and bool(one.edits) and one.severity is other.severity


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
