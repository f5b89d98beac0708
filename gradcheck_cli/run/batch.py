"""Tasks of one kind that workers do at a time; what those of a file bring is taken when the last of them has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gradcheck_cli.contract.worker import Kind, Task
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.taken import take
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import needs
from gradcheck_cli.workers.pool import End, WorkerEnd


@dataclass(slots=True)
class _Share:
    """The tasks of one file, and how those of them ended that have."""

    file: File
    tasks: list[Task]
    ends: dict[int, WorkerEnd] = field(default_factory=dict)  # by the task's identity
    taken: bool = False

    def take(self) -> None:
        """Sort what all of its workers sent, in the order of the tasks; what is left to do is pending."""
        self.taken = True
        mine = {id(task) for task in self.tasks}
        left = [task for task in self.file.pending if id(task) not in mine]
        for task in self.tasks:
            left += take(self.file, task, self.ends[id(task)])
        self.file.pending = left


class Batch:
    """The pending tasks of a kind, those that take longest first where that is known."""

    def __init__(self, files: Sequence[File], kind: Kind, kept: ResultCache | None) -> None:
        self._kept = kept
        self._shares = {
            id(task): share
            for file in files
            if (share := _Share(file, [t for t in file.pending if needs(t) == kind])).tasks
            for task in share.tasks
        }
        self.tasks = [task for file in files for task in file.pending if id(task) in self._shares]
        if kept is not None:
            self.tasks.sort(key=lambda task: -kept.durations.expected(task))

    def ended(self, task: Task, end: WorkerEnd) -> File | None:
        """The file that nothing is pending for any more, if this was the last of it."""
        share = self._shares[id(task)]
        share.ends[id(task)] = end
        if self._kept is not None:
            self._kept.put(task, end)
        if len(share.ends) < len(share.tasks):
            return None
        share.take()
        return None if share.file.pending else share.file

    def cut_off(self, ends: Sequence[WorkerEnd]) -> None:
        """Take what there was until an interrupt; the ends are those of all tasks."""
        for task, end in zip(self.tasks, ends, strict=True):
            self._shares[id(task)].ends[id(task)] = end
        for share in self._shares.values():
            if not share.taken:
                cut = any(end.end is End.INTERRUPTED for end in share.ends.values())
                share.file.stopped |= cut
                share.take()
