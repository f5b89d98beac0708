"""The CLI's side: targets → workers → events → one report and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.contract.worker import AskedPoint, Event, Kind, Task
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.batch import Batch
from gradcheck_cli.run.exit_code import INTERRUPTED
from gradcheck_cli.run.result import Result
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.skims import Skims
from gradcheck_cli.run.sources import read_sources
from gradcheck_cli.run.taken import take
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import TargetReader, needs
from gradcheck_cli.run.unfolding import Told, Unfolding
from gradcheck_cli.workers.crew import Crew, crew
from gradcheck_cli.workers.pool import Interrupted, WorkerEnd

# Hears what is done in a file, and None when all of it is.
Progress = Callable[[str, Event | None], None]


@dataclass(frozen=True)
class Session:
    """One run. `at` are the points that the user asked for, `cache` the folder of compiled code."""

    settings: Settings
    root: Path
    at: Sequence[AskedPoint] = ()
    durations: bool = False
    cache: str | None = None
    only_inputs: bool = False
    script: str | None = None  # the fingerprint of a finding that is to be written as one
    plots: bool = False  # does a format draw them?
    reads: bool = False  # is the source looked at, too, as the linter does?
    results: Path | None = (
        None  # where what was found before is kept, if that may stand for a check
    )

    @property
    def reader(self) -> TargetReader:
        """What reads the targets of this run."""
        return TargetReader(
            self.settings, self.root, asked=self.at, cache=self.cache, only_inputs=self.only_inputs,
            script=self.script, plots=self.plots,
            skims=None if self.results is None else Skims(self.results.parent),
        )  # fmt: skip

    def run(
        self, targets: Sequence[Target], progress: Progress, tell: Told | None = None
    ) -> Result:
        """Check all targets; nothing that user code does stops the others, and an interrupt keeps what is done.

        Files are told as they are done, in the order of the report.
        """
        reader = self.reader
        files = sorted(map(reader.read, targets), key=lambda file: file.display)
        if reader.skims is not None:
            reader.skims.save()
        kept = None if self.results is None else ResultCache(self.results)
        for file in files:
            file.pending = [] if kept is not None and _recall(file, kept) else list(file.tasks)
            if not file.pending:
                progress(file.display, None)
        unfolding = Unfolding(files, self.settings, tell)
        stopped = self._work(files, unfolding, progress, kept)
        unfolding.end()
        if kept is not None:
            kept.tidy()
        report = assemble(files, self.settings, self.at, durations=self.durations)
        if stopped:  # perhaps by a pager that was left, when all was done
            report = replace(report, summary=replace(report.summary, exit_code=INTERRUPTED))
        return Result(report, files, self.settings)

    def _work(
        self,
        files: Sequence[File],
        unfolding: Unfolding,
        progress: Progress,
        kept: ResultCache | None,
    ) -> bool:
        """Let workers do what is pending, one kind of tasks after the other; True if an interrupt came before all was done."""
        kinds = dict.fromkeys(needs(task) for file in files for task in file.pending)
        workers = crew(self.settings)
        try:
            for kind in kinds:
                workers.expect(kind)
            if self.reads:  # while the workers import their frameworks
                read_sources(files, self.cache)
            unfolding.go_on()
            for kind in kinds:
                while (batch := Batch(files, kind, kept)).tasks:
                    self._do(batch, kind, workers, progress, unfolding)
        except KeyboardInterrupt:
            for file in files:
                file.stopped |= bool(file.pending)
            return True
        finally:
            workers.close()
        return False

    def _do(
        self, batch: Batch, kind: Kind, workers: Crew, progress: Progress, unfolding: Unfolding
    ) -> None:
        """Do the tasks of a batch, and tell of files that are done with it."""

        def heard(task: Task, news: Event | WorkerEnd) -> None:
            if not isinstance(news, WorkerEnd):
                progress(task.display, news)
            elif (file := batch.ended(task, news)) is not None:
                progress(file.display, None)
                unfolding.go_on()

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
