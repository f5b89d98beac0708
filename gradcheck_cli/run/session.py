"""The CLI's side: targets → workers → events → one report and an exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.contract.report import NotCovered, Report
from gradcheck_cli.contract.worker import Event, Task
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import deaths, retry
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.deaths import with_input
from gradcheck_cli.run.tasks import File, Outlook, needs
from gradcheck_cli.workers.pool import Pool, WorkerEnd
from gradcheck_cli.workers.spawn import Launcher, launcher

Progress = Callable[[str, Event | None], None]


@dataclass(frozen=True)
class Session:
    """One run. `at` are the points that the user asked for, `cache` the folder of compiled code."""

    settings: Settings
    root: Path
    at: Sequence[str] = ()
    durations: bool = False
    cache: str | None = None
    only_inputs: bool = False
    script: str | None = None  # the fingerprint of a finding that is to be written as one
    scripts: dict[str, str] = field(default_factory=dict)  # what became of that

    @property
    def outlook(self) -> Outlook:
        """How targets are looked at."""
        return Outlook(
            self.settings, self.root, points=self.at, cache=self.cache, only_inputs=self.only_inputs,
            script=self.script,
        )  # fmt: skip

    def run(self, targets: Sequence[Target], progress: Progress) -> Report:
        """Check all targets; nothing that user code does stops the others."""
        look = self.outlook
        files = [look.at(target) for target in targets]
        kinds = dict.fromkeys(needs(task) for file in files for task in file.tasks)
        workers: dict[tuple[frozenset[str], str | None], Launcher] = {}  # a warm server for each
        try:
            for kind in kinds:
                workers[kind] = launcher(self.settings.device, *kind)
            for kind, server in workers.items():
                self._work(files, kind, server, progress)
        finally:
            for server in workers.values():
                server.close()
        for checked in (checked for file in files for checked in file.gradients):
            self.scripts.update(checked.scripts)
        return assemble(files, self.settings, self.at, durations=self.durations)

    # -- the workers -------------------------------------------------------------------------

    def _work(
        self,
        files: Sequence[File],
        kind: tuple[frozenset[str], str | None],
        server: Launcher,
        progress: Progress,
    ) -> None:
        todo = [(file, task) for file in files for task in file.tasks if needs(task) == kind]
        jobs = self.settings.jobs or os.cpu_count() or 1
        pool = Pool(server, min(jobs, len(todo)), self.settings.memory_limit)
        told = [file for file, _ in todo]

        def heard(task: Task, event: Event | None) -> None:
            progress(task.display, event)

        while todo:
            ends = pool.run([task for _, task in todo], heard)
            after = [
                (file, task, outcome) for (file, task), outcome in zip(todo, ends, strict=True)
            ]
            todo = [(file, new) for file, task, end in after for new in _take(file, task, end)]
        for file in told:
            file.findings += [death for _, death in sorted(file.deaths.items())]
            if file.deaths:
                file.not_covered += _left_behind(file)
                file.deaths.clear()


def _take(file: File, task: Task, outcome: WorkerEnd) -> list[Task]:
    """Sort what a worker said, and say what it died of; what is left to do is returned."""
    file.seconds += outcome.seconds
    for event in outcome.events:
        file.add(event)
    about = retry.died_of(outcome) or ""
    if task.alone is not None:
        at = retry.located(outcome)
        if at is not None:
            file.deaths[task.alone] = with_input(file.deaths[task.alone], at)
        return []
    death = deaths.death(file.display, outcome)
    if death is not None:
        file.deaths[about] = death
    more = (retry.rest(task, outcome), retry.alone(task, outcome))
    return [new for new in more if new is not None]


def _left_behind(file: File) -> list[NotCovered]:
    """The custom gradients that a dead worker did not come to."""
    done = {checked.gradient.name for checked in file.gradients}
    done |= {item.gradient.rpartition(".")[2] for item in file.not_covered}
    marked = (marks for task in file.tasks for marks in task.marked.values())
    names = [mark.name for marks in marked for mark in marks]
    names += [name for name in map(_last, file.deaths) if name and name not in names]
    return [
        NotCovered.whole(name, "its worker died before it was done")
        for name in names
        if name not in done
    ]


def _last(qualname: str) -> str:
    return qualname.rpartition(".")[2]
