"""How grave a wrong second derivative is: a note, but for a gradient that is differentiated twice (SEMANTICS G)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gradcheck_cli.check.request import Request
from gradcheck_cli.clues.twice import differentiated_twice
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.laws.law import Judgement, judged
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.users import root_of

_TWICE = 2


def as_wanted(request: Request, each: Judgement) -> Judgement:
    """The judgement, in which a wrong second derivative is an error if somebody wants one."""
    second = [f for f in each.failures if f.rule == RuleName.WRONG_SECOND_DERIVATIVE]
    wanted = _wanted(request) if second else ""
    if not wanted:
        return each
    failures = [_as_error(f, wanted) if f in second else f for f in each.failures]
    graver = judged(each.law, each.points, failures, each.reason)
    return replace(graver, evidence=each.evidence)


def _as_error(failure: Failure, wanted: str) -> Failure:
    return replace(failure, severity=Severity.ERROR, message=f"{failure.message}; {wanted}")


def _wanted(request: Request) -> str:
    """Who wants a second derivative: the settings, or a call in the project."""
    if request.task.order == _TWICE:
        return "`order = 2` is set"
    place = request.gradient.place
    path = Path(place.path)
    if "." in place.qualname or not path.is_file():
        return ""
    where = differentiated_twice(path.resolve(), root_of(path.resolve()), place.qualname)
    return f"`{where}` differentiates it twice" if where else ""
