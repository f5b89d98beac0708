"""The CLI's side: targets → workers → events → one report and an exit code."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli import __version__, outcomes
from gradcheck_cli.backends import across
from gradcheck_cli.config import Settings
from gradcheck_cli.findings_filter import Filter
from gradcheck_cli.frameworks.marks import NAMES
from gradcheck_cli.inputs.pairs import parse_pairs
from gradcheck_cli.outlook import File, Outlook, needs
from gradcheck_cli.rulebook import find
from gradcheck_cli.runner import retry
from gradcheck_cli.runner.pool import Outcome, Pool
from gradcheck_cli.runner.spawn import Launcher, launcher
from gradcheck_cli.scan.files import Target
from gradcheck_cli.words import (
    SCHEMA_VERSION,
    Checked,
    Event,
    FileFinding,
    Finding,
    Finished,
    Gradient,
    NotCovered,
    Report,
    Severity,
    Status,
    Summary,
    Task,
    Tool,
    Unreached,
)

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
        return self._report(files)

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

    # -- after the workers ----------------------------------------------------------------------

    def _report(self, files: Sequence[File]) -> Report:
        chosen = Filter.of(self.settings.select, self.settings.ignore)
        gradients: list[Gradient] = []
        findings: list[Finding] = []
        not_covered: list[NotCovered] = []
        told: dict[int, tuple[int, Finding]] = {}  # by identity; kept, so that it stays one
        for file in files:
            used: set[tuple[int, str]] = set()
            findings += chosen.keep(file.findings, file.ignores, used)
            for checked in across(file.gradients):
                self.scripts.update(checked.scripts)
                kept = chosen.keep(checked.findings, file.ignores, used)
                new = [f for f in kept if id(f) not in told]  # another backend's is told already
                told |= {id(f): (len(findings) + k, f) for k, f in enumerate(new)}
                findings += outcomes.numbered(new, len(gradients))
                numbers = [told[id(f)][0] for f in kept]
                gradients.append(outcomes.indexed(checked, numbers, file.ignores))
                not_covered += [n for n in checked.not_covered if n not in not_covered]
            not_covered += file.not_covered
            if not any(outcomes.could_not(finding) for finding in file.findings):
                unused = outcomes.unused(file.ignores, used, file.display)
                findings += chosen.keep(unused, [], set())
        findings += chosen.keep(self._not_tried(files, gradients), [], set())
        versions = {name: v for file in files for name, v in file.versions.items()}
        return Report(
            schema_version=SCHEMA_VERSION,
            tool=Tool(
                name="cgcheck",
                version=__version__,
                **{name: versions.get(name) for name in NAMES},
            ),
            summary=self._summary(files, gradients, findings, not_covered),
            gradients=gradients,
            findings=findings,
            not_covered=not_covered,
            durations=_durations(files) if self.durations else None,
        )

    def _not_tried(self, files: Sequence[File], gradients: Sequence[Gradient]) -> list[Finding]:
        """Points in `--at` that fit no gradient: a typo must not pass for a check."""
        sizes: dict[str, set[int]] = {}
        for item in (item for gradient in gradients for item in gradient.inputs):
            sizes.setdefault(item.path, set()).add(math.prod(item.shape))
        if not sizes:
            return []
        rule = find("unknown-argument")
        problems = dict.fromkeys(
            problem
            for text in self.at
            for name, numbers in parse_pairs(text).items()
            if (problem := _misfit(name, len(numbers), sizes))
        )
        return [rule.finding(files[0].display, 1, problem) for problem in problems]

    def _summary(
        self,
        files: Sequence[File],
        gradients: Sequence[Gradient],
        findings: Sequence[Finding],
        not_covered: Sequence[NotCovered],
    ) -> Summary:
        def count(severity: Severity) -> int:
            return sum(f.severity is severity for f in findings)

        whole = sum(item.what == "the whole gradient" for item in not_covered)
        checked = sum(g.status is Status.CHECKED for g in gradients)
        return Summary(
            exit_code=outcomes.exit_code(gradients, findings, not_covered, self.settings),
            files=len(files),
            gradients=checked + whole,
            checked=checked,
            unchecked=whole,
            errors=count(Severity.ERROR),
            warnings=count(Severity.WARNING),
            notes=count(Severity.NOTE),
        )


def _misfit(name: str, count: int, sizes: dict[str, set[int]]) -> str | None:
    """Why numbers given by name fit no argument that was tried."""
    if name not in sizes:
        known = ", ".join(sorted(sizes))
        return f"--at {name}=…: no gradient has an argument `{name}` (there are {known})"
    if count not in {1, *sizes[name]}:
        known = ", ".join(map(str, sorted(sizes[name])))
        return f"--at {name}=[…] has {count} numbers; `{name}` was tried with {known}"
    return None


def _take(file: File, task: Task, outcome: Outcome) -> list[Task]:
    """Sort what a worker said, and say what it died of; what is left to do is returned."""
    file.seconds += outcome.seconds
    for event in outcome.events:
        if isinstance(event, Checked):
            file.gradients.append(event)
        elif isinstance(event, FileFinding):
            file.findings += [event.finding] if event.finding not in file.findings else []
        elif isinstance(event, Unreached):
            known = event.not_covered in file.not_covered
            file.not_covered += [] if known else [event.not_covered]
        elif isinstance(event, Finished):
            file.versions |= event.versions
    about = retry.died_of(outcome) or ""
    if task.alone is not None:
        at = retry.located(outcome)
        if at is not None:
            file.deaths[task.alone] = outcomes.with_input(file.deaths[task.alone], at)
        return []
    death = outcomes.death(file.display, outcome)
    if death is not None:
        file.deaths[about] = death
    more = (retry.rest(task, outcome), retry.alone(task, outcome))
    return [new for new in more if new is not None]


def _left_behind(file: File) -> list[NotCovered]:
    """The custom gradients that a dead worker did not come to."""
    done = {checked.gradient.name for checked in file.gradients}
    done |= {item.gradient.rpartition(".")[2] for item in file.not_covered}
    names = [
        mark.partition("@")[0]
        for task in file.tasks
        for marks in task.marked.values()
        for mark in marks
    ]
    names += [name for name in map(_last, file.deaths) if name and name not in names]
    return [
        NotCovered(
            gradient=name,
            law=None,
            what="the whole gradient",
            reason="its worker died before it was done",
        )
        for name in names
        if name not in done
    ]


def _last(qualname: str) -> str:
    return qualname.rpartition(".")[2]


def _durations(files: Sequence[File]) -> dict[str, float]:
    """Of each file (its worker's imports too), then of each gradient: what its laws and they share."""
    found: dict[str, float] = {}
    for file in files:
        found[file.display] = round(file.seconds, 3)
        for checked in file.gradients:
            name = f"{file.display}:{checked.gradient.qualname}"
            found |= {f"{name}: {what}": round(s, 3) for what, s in checked.seconds.items()}
    return found
