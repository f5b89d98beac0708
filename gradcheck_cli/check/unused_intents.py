"""Declared intents that explained nothing, once everything was tried."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Finding
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import Declarations
from gradcheck_cli.project.rule_pages import find


def unused(request: Request, start: Opening, outcome: GradientOutcome) -> Iterator[Finding]:
    """A finding for each declaration that explained nothing."""
    if not outcome.checked or outcome.late or outcome.stands_still:
        return
    rule, site = find(RuleName.UNUSED_INTENT), request.site
    declarations = Declarations(list(start.intents), set(outcome.answered), set(outcome.broken))
    for declared in declarations.unused:
        message = f"`expect({declared.text})` explains nothing"
        finding = rule.finding(site.path, site.line, message, about=declared.name)
        yield replace(finding, gradient=request.gradient.place.qualname)
