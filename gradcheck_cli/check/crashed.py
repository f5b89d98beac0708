"""A bug of ours in a gradient or a file: a finding with where it happened; the gradient itself stays in the count."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Event, FileFinding, Task
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.project.rule_pages import find

_WHY = "cgcheck itself failed"


def file_crashed(task: Task, error: Exception) -> FileFinding:
    """What is told of a bug that is about no single gradient."""
    message = f"{_WHY} on this file: {type(error).__name__}: {error}"
    rule = find(RuleName.INTERNAL_ERROR)
    return FileFinding(
        finding=rule.finding(task.display, 1, message, help=traceback.format_exc(limit=-3))
    )


def crashed(request: Request, error: Exception, *, told: bool = False) -> Iterator[Event]:
    """What is told of it; of a gradient that was only listed or swept, or told before, the finding alone."""
    name, task = request.gradient.name, request.task
    message = f"{_WHY} on `{name}`: {type(error).__name__}: {error}"
    yield FileFinding(
        finding=find(RuleName.INTERNAL_ERROR).finding(
            task.display,
            request.site.line,
            message,
            about=name,
            help=traceback.format_exc(limit=-3),
        )
    )
    if task.sweep is None and not task.only_inputs and not told:
        outcome = GradientOutcome(reasons=(_WHY,))
        start = Opening(Hints(keys={}, unpacked={}, functions=[]), (), outcome)
        yield checked(request, start, outcome)
