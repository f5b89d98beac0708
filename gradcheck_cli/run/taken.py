"""What a worker leaves when it ends: its events in their file, its death, and the work that is left."""

from __future__ import annotations

from gradcheck_cli.contract.worker import Task
from gradcheck_cli.run import deaths, retry
from gradcheck_cli.run.left_behind import left_behind
from gradcheck_cli.run.target_file import File
from gradcheck_cli.workers.pool import WorkerEnd


def bury(file: File) -> None:
    """What its workers died of as findings, and what they left undone."""
    file.findings += [death.finding for _, death in sorted(file.deaths.items())]
    file.not_covered += left_behind(file)
    file.deaths.clear()


def take(file: File, task: Task, end: WorkerEnd) -> list[Task]:
    """Sort what a worker sent, and keep what it died of; what is left to do is returned."""
    file.seconds += end.seconds
    for event in end.events:
        file.add(event)
    if task.alone is not None:
        point = retry.located(end)
        if point is not None:
            file.deaths[task.alone] = file.deaths[task.alone].at(point)
        elif file.deaths[task.alone].is_crash and retry.survived(task, end):
            del file.deaths[task.alone]
        return []
    death = deaths.death(file.display, end)
    if death is not None and retry.made_up_call(task, end) is None:
        file.deaths[retry.died_of(end) or ""] = death
    more = (retry.rest(task, end), retry.alone(task, end))
    return [new for new in more if new is not None]
