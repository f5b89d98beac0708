"""One gradient examined, listed or swept as its task asks; a bug of ours becomes a finding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence

from gradcheck_cli.check.crashed import crashed
from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.gradient import examine
from gradcheck_cli.check.only_inputs import only_inputs
from gradcheck_cli.check.progress import Progress
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.site import site_of
from gradcheck_cli.contract.worker import Checked, Event, Task
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.subject.protocol import CustomGradient, Framework

Emit = Callable[[Event], None]


def check_gradient(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    path: str,
    emit: Emit,
    clock: Clock,
    calls: Sequence[Signature] = (),
) -> None:
    """Emit all that there is to say of one gradient; `path` is the file that is being checked."""
    site = site_of(gradient, task, path)
    progress = Progress(gradient.place.qualname, site.line, emit, clock)
    request = Request(gradient, framework, task, site, progress, calls)
    clock.begin()
    told = False  # already, but for the change that makes it right
    try:
        # A sweep hands out each part as soon as it is done: it needs no time to write it down.
        with contextlib.nullcontext() if task.sweep is not None else clock.running():
            for event in _events(request):
                emit(event)
                told = isinstance(event, Checked)
    except Exception as error:
        for event in crashed(request, error, told=told):
            emit(event)


def _events(request: Request) -> Iterable[Event]:
    if request.task.sweep is not None:
        from gradcheck_cli.check.sweep.work import sweep

        return sweep(request)
    if request.task.only_inputs:
        return [only_inputs(request)]
    return examine(request)
