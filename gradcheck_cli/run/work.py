"""The work of a run: what is known from an earlier one is recalled, workers do the rest, and files are told as they are done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.worker import Event, Kind, Task
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.batch import Batch
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.sources import read_sources
from gradcheck_cli.run.taken import take
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import needs
from gradcheck_cli.run.unfolding import Unfolding
from gradcheck_cli.workers.crew import Crew, crew
from gradcheck_cli.workers.pool import Interrupted, WorkerEnd

# Hears what is done in a file, and None when all of it is.
Progress = Callable[[str, Event | None], None]


@dataclass(frozen=True, slots=True)
class Work:
    """The files of a run, and who hears of them."""

    files: Sequence[File]
    unfolding: Unfolding
    progress: Progress
    kept: ResultCache | None

    def recall(self) -> None:
        """Take what is known; what is not is pending."""
        for file in self.files:
            known = self.kept is not None and _recall(file, self.kept)
            file.pending = [] if known else list(file.tasks)
            if not file.pending:
                self.progress(file.display, None)

    def do(self, settings: Settings, cache: str | None, *, reads: bool) -> bool:
        """Let workers do what is pending, one kind of tasks after the other; True if an interrupt came before all was done.

        Meanwhile the sources are read as the linter does, if it `reads`.
        """
        files = self.files
        kinds = dict.fromkeys(needs(task) for file in files for task in file.pending)
        workers = crew(settings)
        try:
            for kind in kinds:
                workers.expect(kind)
            if reads:  # while the workers import their frameworks
                read_sources(files, cache)
            self.unfolding.go_on()
            for kind in kinds:
                while (batch := Batch(files, kind, self.kept)).tasks:
                    self._do(batch, kind, workers)
        except KeyboardInterrupt:
            for file in files:
                file.stopped |= bool(file.pending)
            return True
        finally:
            workers.close()
        return False

    def _do(self, batch: Batch, kind: Kind, workers: Crew) -> None:
        """Do the tasks of a batch, and tell of files that are done with it."""

        def heard(task: Task, news: Event | WorkerEnd) -> None:
            if not isinstance(news, WorkerEnd):
                self.progress(task.display, news)
            elif (file := batch.ended(task, news)) is not None:
                self.progress(file.display, None)
                self.unfolding.go_on()

        try:
            workers.run(kind, batch.tasks, heard)
        except Interrupted as interrupt:
            batch.cut_off(interrupt.ends)
            raise


def _recall(file: File, kept: ResultCache) -> bool:
    """What the workers of a file said before, if that still holds of all of them; then none has to begin."""
    ends = [kept.get(task) for task in file.tasks]
    if not ends or not all(end is not None for end in ends):
        return False
    for task, end in zip(file.tasks, ends, strict=True):
        if end is not None:
            take(file, task, end)
    return True
