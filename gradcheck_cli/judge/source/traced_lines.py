"""Which lines of a file took part in a rule's trace: of several branches, those that were taken."""

from __future__ import annotations

from gradcheck_cli.project.framework_marks import PLUMBING
from gradcheck_cli.reals.source_spot import spot
from gradcheck_cli.subject.protocol import Traced


def traced_lines(subject: Traced) -> frozenset[tuple[str, int]] | None:
    """Files and lines of what the rule does at the subject's shapes; None where it has no trace."""
    rule = subject.traces().rule
    if rule is None:
        return None
    spots = (spot(step, PLUMBING) for step in rule.steps)
    there = [s for s in spots if s is not None]
    return frozenset((s.path, n) for s in there for n in range(s.line, s.end_line + 1))
