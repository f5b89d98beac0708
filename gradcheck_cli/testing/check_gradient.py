"""`check_gradient(function)` in a unit test: comments and settings are read as on the command line."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gradcheck_cli.check.loaded import check_loaded
from gradcheck_cli.contract.report import Report, Severity, Status
from gradcheck_cli.contract.worker import Checked, Doing, Event
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.framework_marks import ASKED
from gradcheck_cli.project.input_specs import parse as parse_spec
from gradcheck_cli.project.intent_specs import parse as parse_intents
from gradcheck_cli.project.settings import Settings, with_flags
from gradcheck_cli.project.settings import load as load_settings
from gradcheck_cli.record.watch import gradient_of
from gradcheck_cli.report.text import render
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.exit_code import OK
from gradcheck_cli.run.tasks import File, TargetReader
from gradcheck_cli.subject.protocol import CustomGradient, Framework

_FUNCTION = "function"
_WIDTH = 80


def check_gradient(
    function: Callable[..., Any],
    *,
    inputs: str | None = None,
    expect: str | None = None,
    dtypes: Sequence[str] | None = None,
    points: int | None = None,
    seed: int | None = None,
    fail_on: str | None = None,
) -> None:
    """Raise an `AssertionError` with the whole report if the custom gradient is not right.

    What is given here is stronger than the comments of the function's file and the settings of its
    project. `inputs` and `expect` are what a `# cgcheck:` comment would say: `"x=f32[b n] in [-1, 1]"`,
    `"expect(straight-through)"`. Also what could not be checked raises: silence is no answer.
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not this one
    if inputs is not None:
        parse_spec(inputs)
    if expect is not None:
        parse_intents(expect)
    gradient, framework = adopted(function)
    file = Path(gradient.place.path)
    settings, root = load_settings(file if file.is_file() else Path.cwd())
    flags = {
        "dtype": None if dtypes is None else list(dtypes), "points": points, "seed": seed,
        "fail_on": None if fail_on is None else Severity(fail_on).value,
    }  # fmt: skip
    session = LoadedSession(with_flags(settings, flags, "check_gradient"), root)
    session.check(gradient, framework, inputs=inputs, expect=expect)
    report = session.report()
    unchecked = any(g.status is not Status.CHECKED for g in report.gradients)
    if unchecked or report.summary.exit_code != OK:
        raise AssertionError("\n\n" + session.page(_WIDTH))


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
        """What a check said of a file, in this process or in another one."""
        if not isinstance(event, Doing):
            self.events.append((display, event))
            self.file(display).add(event)

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
        return assemble(list(self.files.values()), self.settings)

    def page(self, width: int) -> str:
        """The report that people read."""
        return render(self.report(), self.root, color=False, verbose=False, width=width)


def adopted(function: Any) -> tuple[CustomGradient, Framework]:
    """What the object is to the framework that made it; a plain function is the one's it uses."""
    found = list(_claims(function))
    if not found:
        raise TypeError(f"{function!r} is nothing that has a gradient")
    custom = [pair for pair in found if pair[0].kind != _FUNCTION]
    used = [pair for pair in found if pair[1].name in _modules(function)]
    return (custom or used or found[-1:])[0]


def _claims(function: Any) -> Iterator[tuple[CustomGradient, Framework]]:
    for each in ASKED:
        if each in sys.modules:
            framework = load(each)
            gradient = gradient_of(framework, function)
            if gradient is not None:
                yield gradient, framework


def _modules(function: Any) -> set[str]:
    """Top-level modules that the function's own module imports."""
    names = getattr(inspect.unwrap(function), "__globals__", {}).values()
    return {
        value.__name__.partition(".")[0]
        for value in names
        if inspect.ismodule(value) and value.__name__
    }
