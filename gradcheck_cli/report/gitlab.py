"""A Code Quality report, which GitLab shows in a merge request."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from gradcheck_cli.contract.report import Report, Severity
from gradcheck_cli.report.json_text import indented
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import headline, one_line, plain, told, unchecked

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def render(report: Report, look: Look) -> str:
    """An array of issues, each with a fingerprint of its own."""
    issues = [
        _issue(f.path, f.line, f.rule, _SEVERITIES[f.severity], headline(f), f.fingerprint)
        for f in told(report, look.verbose)
    ]
    issues += [
        _issue(path, line, "could-not-check", "minor", one_line(f"{item.gradient}: {item.reason}"), item.gradient)
        for item, path, line in unchecked(report)
    ]  # fmt: skip
    _tell_apart(issues)
    return indented(issues)


def _issue(
    path: str, line: int, rule: str, severity: str, text: str, fingerprint: str
) -> dict[str, Any]:
    identity = hashlib.sha256("\0".join((rule, path, fingerprint)).encode("utf-8", "replace"))
    return {
        "description": text,
        "check_name": f"cgcheck/{rule}",
        "fingerprint": identity.hexdigest(),
        "severity": severity,
        "location": {"path": plain(path), "lines": {"begin": line}},
    }


def _tell_apart(issues: list[dict[str, Any]]) -> None:
    """Number those that share a fingerprint: GitLab would show one of them alone."""
    seen: Counter[str] = Counter()
    for issue in issues:
        own = issue["fingerprint"]
        seen[own] += 1
        if seen[own] > 1:
            issue["fingerprint"] = hashlib.sha256(f"{own} {seen[own]}".encode()).hexdigest()
