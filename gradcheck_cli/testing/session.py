"""A run without workers, of gradients that this very process has loaded."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.check.loaded import check_loaded
from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.worker import Checked, Doing, Event
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import render
from gradcheck_cli.report.look import Look
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import TargetReader
from gradcheck_cli.run.unfolding import report_of
from gradcheck_cli.subject.protocol import CustomGradient, Framework


@dataclass
class LoadedSession:
    """One run without workers, of gradients that this very process has loaded."""

    settings: Settings
    root: Path
    files: dict[str, File] = field(default_factory=dict)  # as they are shown
    events: list[tuple[str, Event]] = field(default_factory=list)  # with the file they are about

    @functools.cached_property
    def reader(self) -> TargetReader:
        """What reads the files; each of them gets a task, whatever its source shows."""
        return TargetReader(replace(self.settings, import_all=True), self.root)

    def check(
        self,
        gradient: CustomGradient,
        framework: Framework,
        calls: Sequence[Signature] = (),
        *,
        inputs: str | None = None,
        expect: str | None = None,
    ) -> None:
        """Check one gradient, as it was called; texts that are given stand instead of its comments."""
        display = self.reader.display(Path(gradient.place.path))
        task = self.file(display).tasks[0]
        if inputs is not None:
            task = replace(task, inputs={gradient.name: inputs})
        if expect is not None:
            task = replace(task, expects={gradient.name: expect})
        check_loaded(gradient, framework, task, functools.partial(self.add, display), calls)

    def gradients(self) -> Iterator[Checked]:
        """What was checked, file by file."""
        return (checked for file in self.files.values() for checked in file.gradients)

    def add(self, display: str, event: Event) -> None:
        """What a check said of a file, in this process or in another one; of a gradient made again, once."""
        file = self.file(display)
        again = isinstance(event, Checked) and any(_say_the_same(event, c) for c in file.gradients)
        if not again and not isinstance(event, Doing):
            self.events.append((display, event))
            file.add(event)

    def file(self, display: str) -> File:
        """One file with its comments; a function of a notebook has none."""
        if display not in self.files:
            target = Target(self.root / display, None, explicit=False)
            there = (self.root / display).is_file()
            file = self.reader.read(target) if there else File(display)
            file.tasks = file.tasks or [self.reader.task(target, display)]
            file.whole = False
            self.files[display] = file
        return self.files[display]

    def report(self) -> Report:
        """All that was checked until now."""
        return report_of(list(self.files.values()), self.settings)

    def page(self, width: int) -> str:
        """The report that people read."""
        return render("text", self.report(), Look(self.root, width=width))


def _say_the_same(one: Checked, other: Checked) -> bool:
    """Are these checks of one definition, with the same result?"""
    return (one.gradient, one.findings, one.not_covered) == (
        other.gradient, other.findings, other.not_covered,
    )  # fmt: skip
