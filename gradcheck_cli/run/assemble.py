"""A report from its gradients and findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from gradcheck_cli.contract.report import (
    SCHEMA_VERSION,
    Finding,
    Gradient,
    NotCovered,
    Report,
    Severity,
    Status,
    Summary,
    Suppressed,
    Tool,
)
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.contract.worker import AskedPoint, Checked
from gradcheck_cli.project.framework_marks import NAMES
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter, Unused
from gradcheck_cli.run.backends import across
from gradcheck_cli.run.exit_code import INTERRUPTED, could_not, exit_code
from gradcheck_cli.run.indexed import indexed, numbered
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.unmatched_points import unmatched


def assemble(
    files: Sequence[File],
    settings: Settings,
    at: Sequence[AskedPoint] = (),
    *,
    durations: bool = False,
) -> Report:
    """What is shown of files under these settings, once their findings know of each other; `at` are the points that were asked for."""
    draft = _Draft(Filter.of(settings.select, settings.ignore))
    for file in files:
        draft.add_file(file)
    draft.add(unmatched(at, draft.gradients, files[0].display) if files else [])
    return Report(
        schema_version=SCHEMA_VERSION,
        tool=_tool({name: v for file in files for name, v in file.versions.items()}),
        summary=_summary(files, draft, settings),
        gradients=draft.gradients,
        findings=draft.findings,
        not_covered=draft.not_covered,
        suppressed=draft.suppressed,
        durations=_durations(files) if durations else None,
    )


@dataclass(slots=True)
class _Draft:
    """A report while files are added to it."""

    chosen: Filter
    gradients: list[Gradient] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    not_covered: list[NotCovered] = field(default_factory=list)
    suppressed: list[Suppressed] = field(default_factory=list)

    def add(self, findings: Iterable[Finding]) -> None:
        """Findings that no comment suppresses; the settings may."""
        self.findings += self.chosen.keep(findings)

    def add_file(self, file: File) -> None:
        """A file's own findings, then those of its gradients, then comments that suppress nothing."""
        self.findings += self.chosen.keep([*file.findings, *file.linted], file.ignores)
        numbers: dict[int, int] = {}  # by the identity of a finding: backends share one object
        # A list: an identity is a finding's own only as long as the finding lives.
        gradients = list(across(file.gradients))
        for checked in gradients:
            self._add_gradient(checked, file, numbers)
        own = {id(f): f for checked in gradients for f in checked.findings}
        every = [*file.findings, *file.linted, *own.values()]
        self.suppressed += self.chosen.suppressed(every, file.ignores, file.display)
        self._leave(file.not_covered, file.display)
        self.findings += [item.finding for item in unused_ignores(file, self.chosen)]

    def _add_gradient(self, checked: Checked, file: File, numbers: dict[int, int]) -> None:
        kept = self.chosen.keep(checked.findings, file.ignores)
        new = [f for f in kept if id(f) not in numbers]  # not another backend's
        numbers |= {id(f): len(self.findings) + k for k, f in enumerate(new)}
        self.findings += numbered(new, len(self.gradients))
        places = [numbers[id(f)] for f in kept]
        self.gradients.append(indexed(checked, kept, places, file.ignores))
        self._leave(checked.not_covered, checked.gradient.path)

    def _leave(self, items: Iterable[NotCovered], path: str) -> None:
        """What could not be checked of a file, each thing once: backends share them."""
        here = [replace(item, path=path) for item in items]
        self.not_covered += [item for item in here if item not in self.not_covered]


def unused_ignores(file: File, chosen: Filter) -> list[Unused]:
    """Comments of a file that suppress nothing; of gradients that were not looked at, none can be said to."""
    if any(could_not(finding) for finding in file.findings):
        return []
    gradients = list(across(file.gradients))
    lines = {checked.gradient.line for checked in gradients}
    ignores = [ignore for ignore in file.ignores if file.whole or ignore.applies_to in lines]
    own = (finding for checked in gradients for finding in checked.findings)
    return chosen.unused(ignores, [*file.findings, *file.linted, *own], file.display)


def _tool(versions: Mapping[str, str]) -> Tool:
    numbers = {name: versions.get(name) for name in NAMES}
    return Tool(name="cgcheck", version=__version__, **numbers)


def _summary(files: Sequence[File], draft: _Draft, settings: Settings) -> Summary:
    whole = sum(item.is_whole for item in draft.not_covered)
    checked = sum(g.status is Status.CHECKED for g in draft.gradients)
    left = any(not f.whole and any(item.is_whole for item in f.not_covered) for f in files)
    code = exit_code(draft.gradients, draft.findings, draft.not_covered, settings, named_left=left)
    return Summary(
        exit_code=INTERRUPTED if any(file.stopped for file in files) else code,
        files=len(files),
        gradients=checked + whole,
        checked=checked,
        unchecked=whole,
        **counted(draft.findings),
    )


def counted(findings: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are of each severity, as a summary has them."""
    levels = [f.severity for f in findings]
    return {
        "errors": levels.count(Severity.ERROR),
        "warnings": levels.count(Severity.WARNING),
        "notes": levels.count(Severity.NOTE),
    }


def _durations(files: Sequence[File]) -> dict[str, float]:
    """Seconds of each file (its worker's imports too), then of each gradient: its laws, and what they share."""
    seconds: dict[str, float] = {}
    for file in files:
        seconds[file.display] = round(file.seconds, 3)
        for checked in file.gradients:
            name = f"{file.display}:{checked.gradient.qualname}"
            seconds |= {f"{name}: {what}": round(s, 3) for what, s in checked.seconds.items()}
    return seconds
