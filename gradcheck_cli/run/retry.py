"""After a death: the rest of the file, and the deadly gradient point by point, each in a new worker."""

from __future__ import annotations

import msgspec

from gradcheck_cli.contract.worker import Checked, Doing, Finished, Phase, Task
from gradcheck_cli.workers.pool import End, WorkerEnd

# A single point that takes longer than this hangs.
_SECONDS_A_POINT = 10.0
_MOST_SECONDS = 60.0
_MOST_DEADLY = 6  # calls with inputs that were made up, in one file


def rest(task: Task, last: WorkerEnd) -> Task | None:
    """The gradients of a file that are still to do: without those that are done, and the deadly one."""
    late = any(isinstance(e, Finished) and e.out_of_time for e in last.events)
    dead = died_of(last)
    if task.alone is not None or (dead is None and not late):
        return None
    told = {e.gradient.qualname: e for e in last.events if isinstance(e, Checked)}
    done = [name for name, e in told.items() if not (late and e.provisional)]
    call = made_up_call(task, last)
    if call is not None:
        return msgspec.structs.replace(task, skip=[*task.skip, *done], deadly=[*task.deadly, call])
    return msgspec.structs.replace(task, skip=[*task.skip, *done, *([dead] if dead else [])])


def made_up_call(task: Task, last: WorkerEnd) -> str | None:
    """The call with inputs of our own that the worker died of, where the gradient can do without it."""
    if last.end is not End.DIED or last.doing is None or len(task.deadly) >= _MOST_DEADLY:
        return None
    return last.doing.call or None


def alone(task: Task, last: WorkerEnd) -> Task | None:
    """The gradient that a worker died of, to be run one point at a time."""
    dead = died_of(last)
    if dead is None or task.alone is not None or last.end is End.OUT_OF_MEMORY:
        return None
    if last.doing is None or last.doing.phase is not Phase.RUNNING:
        return None
    seconds = min(task.max_time or _MOST_SECONDS, _MOST_SECONDS)
    return msgspec.structs.replace(task, alone=dead, max_time=seconds)


def survived(task: Task, last: WorkerEnd) -> bool:
    """Was the gradient judged after all, when it was run point by point? What killed its worker does not come again."""
    judged = (e for e in last.events if isinstance(e, Checked) and not e.provisional)
    names = [each.gradient.qualname for each in judged]
    return last.end is End.FINISHED and task.alone in names


def died_of(last: WorkerEnd) -> str | None:
    """The gradient that a worker had in hand when it died."""
    if last.end is End.FINISHED or last.doing is None:
        return None
    return last.doing.gradient


def located(last: WorkerEnd) -> Doing | None:
    """The point that a worker died of when it ran them one at a time."""
    doing = last.doing
    if last.end is End.FINISHED or doing is None or not doing.inputs:
        return None
    slow = last.end is End.TIMED_OUT and last.quiet < _SECONDS_A_POINT
    return None if slow else doing
