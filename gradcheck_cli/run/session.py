"""The CLI's side: targets → workers → events → one report and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.worker import AskedPoint, Event, Kind, Task
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.result import Result
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.sources import read_sources
from gradcheck_cli.run.taken import bury, take
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import TargetReader, needs
from gradcheck_cli.workers.crew import Crew, crew
from gradcheck_cli.workers.pool import End, Interrupted

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
        )  # fmt: skip

    def run(self, targets: Sequence[Target], progress: Progress) -> Result:
        """Check all targets; nothing that user code does stops the others, and an interrupt keeps what is done."""
        reader = self.reader
        files = [reader.read(target) for target in targets]
        kept = None if self.results is None else ResultCache(self.results)
        if kept is not None:
            for file in files:
                if _recall(file, kept):
                    progress(file.display, None)
        kinds = dict.fromkeys(needs(task) for file in files for task in file.due)
        workers = crew(self.settings)
        begun: set[Kind] = set()
        try:
            for kind in kinds:
                workers.expect(kind)
            if self.reads:  # while the workers import their frameworks
                read_sources(files, self.cache)
            for kind in kinds:
                begun.add(kind)
                _work(files, kind, workers, progress, kept)
        except KeyboardInterrupt:
            for file in files:
                file.stopped |= any(needs(task) not in begun for task in file.due)
        finally:
            workers.close()
        for file in files:
            bury(file)
        if kept is not None:
            kept.tidy()
        report = assemble(files, self.settings, self.at, durations=self.durations)
        return Result(report, files, self.settings)


def _work(
    files: Sequence[File], kind: Kind, workers: Crew, progress: Progress, kept: ResultCache | None
) -> None:
    """Do the tasks of one kind, the longest first where that is known, and what is left when a worker ends early."""
    todo = [(file, task) for file in files for task in file.due if needs(task) == kind]
    if kept is not None:
        todo.sort(key=lambda pair: -kept.durations.expected(pair[1]))

    def show(task: Task, event: Event | None) -> None:
        progress(task.display, event)

    while todo:
        try:
            ends = workers.run(kind, [task for _, task in todo], show)
        except Interrupted as interrupt:
            for (file, task), end in zip(todo, interrupt.ends, strict=True):
                take(file, task, end)
                file.stopped |= end.end is End.INTERRUPTED
            raise
        if kept is not None:
            for (_, task), end in zip(todo, ends, strict=True):
                kept.put(task, end)
        over = zip(todo, ends, strict=True)
        todo = [(file, new) for (file, task), end in over for new in take(file, task, end)]


def _recall(file: File, kept: ResultCache) -> bool:
    """What the workers of a file said before, if that still holds of all of them; then none has to begin."""
    ends = [kept.get(task) for task in file.tasks]
    if all(end is not None for end in ends):
        for task, end in zip(file.tasks, ends, strict=True):
            if end is not None:
                take(file, task, end)
        file.recalled = bool(ends)
    return file.recalled
