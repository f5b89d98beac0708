"""What every finding about a gradient has: rule, severity, message, place, backend."""

from __future__ import annotations

import msgspec

from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import CustomGradient


def outline(
    rule: RuleName,
    severity: Severity,
    message: str,
    gradient: CustomGradient,
    site: Site,
    help: str | None = None,
) -> Finding:
    """A finding at the gradient's definition (which may be made more exact), with the rule's own help unless another is given."""
    about = gradient.place.qualname
    return msgspec.structs.replace(
        find(rule).finding(site.path, site.line, message, about=about, help=help),
        severity=severity,
        column=site.column,
        end_line=site.line,
        end_column=site.end_column,
        gradient=about,
        gradient_line=site.line,
        backends=[gradient.backend],
    )
