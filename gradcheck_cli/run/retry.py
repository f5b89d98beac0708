"""After a death: the rest of the file, and the deadly gradient point by point, each in a new worker."""

from __future__ import annotations

import msgspec

from gradcheck_cli.contract.worker import Checked, Doing, Finished, Phase, Task
from gradcheck_cli.workers.pool import End, WorkerEnd

# A single point that takes longer than this hangs.
_SECONDS_A_POINT = 10.0
_MOST_SECONDS = 60.0


def rest(task: Task, outcome: WorkerEnd) -> Task | None:
    """The same file without what is done and what it died of, or ran out of time at."""
    late = any(isinstance(e, Finished) and e.out_of_time for e in outcome.events)
    dead = died_of(outcome)
    if task.alone is not None or (dead is None and not late):
        return None
    done = [e.gradient.qualname for e in outcome.events if isinstance(e, Checked)]
    return msgspec.structs.replace(task, skip=[*task.skip, *done, *([dead] if dead else [])])


def alone(task: Task, outcome: WorkerEnd) -> Task | None:
    """The gradient that it died of, one point at a time."""
    dead = died_of(outcome)
    if dead is None or task.alone is not None or outcome.end is End.OUT_OF_MEMORY:
        return None
    if outcome.doing is None or outcome.doing.phase is not Phase.RUNNING:
        return None
    seconds = min(task.max_time or _MOST_SECONDS, _MOST_SECONDS)
    return msgspec.structs.replace(task, alone=dead, max_time=seconds)


def died_of(outcome: WorkerEnd) -> str | None:
    """The gradient that was in hand."""
    if outcome.end is End.FINISHED or outcome.doing is None:
        return None
    return outcome.doing.gradient


def located(outcome: WorkerEnd) -> Doing | None:
    """The point that a worker died of when it ran them one at a time."""
    doing = outcome.doing
    if outcome.end is End.FINISHED or doing is None or not doing.inputs:
        return None
    slow = outcome.end is End.TIMED_OUT and outcome.quiet < _SECONDS_A_POINT
    return None if slow else doing
