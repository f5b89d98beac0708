"""A bug of ours in a gradient or a file: a finding with where it happened; the gradient itself stays in the count."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Event, FileFinding, Task
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.project.rule_pages import find

_WHY = "cgcheck itself failed"
_PACKAGE = str(Path(__file__).parent.parent)
_LAST = 3  # calls that are shown


def file_crashed(task: Task, error: Exception) -> FileFinding:
    """What is told of a bug that is about no single gradient."""
    return _told(task, error, 1, "this file")


def crashed(request: Request, error: Exception, *, told: bool = False) -> Iterator[Event]:
    """What is told of it; of a gradient that was only listed or swept, or told before, the finding alone."""
    name, task = request.gradient.name, request.task
    yield _told(task, error, request.site.line, f"`{name}`", name)
    if task.sweep is None and not task.only_inputs and not told:
        outcome = GradientOutcome(reasons=(_WHY,))
        start = Opening(Hints(keys={}, unpacked={}, functions=[]), (), outcome)
        yield checked(request, start, outcome)


def _told(task: Task, error: Exception, line: int, on: str, about: str = "") -> FileFinding:
    """The finding of a bug, with the last calls that led to it."""
    message = f"{_WHY} on {on}: {type(error).__name__}: {error}"
    rule = find(RuleName.INTERNAL_ERROR)
    return FileFinding(
        finding=rule.finding(task.display, line, message, about=about, help=_calls(error))
    )


def _calls(error: Exception) -> str:
    """The last calls of ours that led to it, and where it was raised, be that in a framework far below."""
    stack = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in stack[:-1] if frame.filename.startswith(_PACKAGE)][-_LAST:]
    shown = traceback.StackSummary.from_list([*ours, *stack[-1:]])
    return "".join(["Traceback:\n", *shown.format(), *traceback.format_exception_only(error)])
