"""A source with its findings repaired, as far as their pages prove how.

Repairs are made one at a time, and each is held to what it promises: the source still parses, its finding is gone and
no other has come. One that does not hold is left out. What is left has no repair, so a second run changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.project.edits import applied

_MOST = 200  # repairs of one file

Findings = Callable[[str], Sequence[Finding]]  # of a source; those that are suppressed left out


@dataclass(frozen=True, slots=True)
class Fixed:
    """The source as it is now, and the findings that were repaired."""

    text: str
    repaired: Sequence[Finding]


def fixed(source: str, findings_of: Findings, *, unsafe: bool) -> Fixed:
    """Repair what can be."""
    repaired: list[Finding] = []
    refused: set[tuple[str, str]] = set()
    findings = findings_of(source)
    while len(repaired) < _MOST:
        todo = (f for f in findings if f.edits and (unsafe or f.fix_is_safe))
        chosen = next((f for f in todo if _key(f) not in refused), None)
        if chosen is None:
            break
        text = applied(source, chosen.edits)
        after = findings_of(text)
        if _holds(findings, after, chosen):
            source, findings = text, after
            repaired.append(chosen)
        else:
            refused.add(_key(chosen))
    return Fixed(source, repaired)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.rule, finding.fingerprint


def _holds(before: Sequence[Finding], after: Sequence[Finding], chosen: Finding) -> bool:
    """Is this finding gone, and no other there that was not before?"""
    rules, now = Counter(f.rule for f in before), Counter(f.rule for f in after)
    return now[chosen.rule] < rules[chosen.rule] and all(
        n <= rules[rule] for rule, n in now.items()
    )
