"""How often each rule was found, the most frequent first."""

from __future__ import annotations

from collections import Counter

from gradcheck_cli.contract.report import Report, Severity
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.look import Look


def render(report: Report, look: Look) -> str:
    """`   12  error    CG101  gradient-mismatch`, then the closing line; notes too, if they are asked for."""
    counts = Counter(
        (f.rule, f.code, f.severity)
        for f in report.findings
        if look.verbose or f.severity is not Severity.NOTE
    )
    rows = sorted(counts.items(), key=lambda row: (-row[1], -row[0][2].rank, row[0][1]))
    lines = [f"{n:>5}  {severity:<7}  {code}  {rule}" for (rule, code, severity), n in rows]
    return "\n".join((*lines, closing(report))) + "\n"
