"""One target of a run: what it says of itself, what workers have to do for it, and what they sent."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.contract.report import Finding, NotCovered
from gradcheck_cli.contract.worker import Checked, Event, FileFinding, Finished, Task, Unreached
from gradcheck_cli.project import comments
from gradcheck_cli.run.deaths import Death


@dataclass(slots=True)
class File:
    """One target and what its workers sent; `whole` unless only some of its gradients are looked at."""

    display: str
    tasks: list[Task] = field(default_factory=list)  # one, and one more for each backend
    ignores: list[comments.Ignore] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    gradients: list[Checked] = field(default_factory=list)
    not_covered: list[NotCovered] = field(default_factory=list)
    deaths: dict[str, Death] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    linted: list[Finding] = field(default_factory=list)  # what its source alone tells
    source: Path | None = None  # where that is read; a library's, or a function's, is not
    content: str | None = None  # its name, where it is known
    tree: ast.Module | None = None  # where the linter told of something
    whole: bool = True
    pending: list[Task] = field(default_factory=list)  # what workers have yet to do
    stopped: bool = False  # by the user, before all of it was done
    skimmed: bool = False  # its words say that it defines nothing; whether it is Python is open

    def add(self, event: Event) -> None:
        """Sort what a worker sends, each thing once; what it is about to do is not kept."""
        if isinstance(event, Checked):
            self._add_checked(event)
        elif isinstance(event, FileFinding):
            self.findings += [event.finding] if event.finding not in self.findings else []
        elif isinstance(event, Unreached):
            old = event.not_covered in self.not_covered
            self.not_covered += [] if old else [event.not_covered]
        elif isinstance(event, Finished):
            self.versions |= event.versions

    def _add_checked(self, checked: Checked) -> None:
        """A gradient, in place of what was said of it before its correction was looked for, or before it was begun again."""
        now = checked.gradient
        for place, before in enumerate(self.gradients):
            same = (before.gradient.id, before.gradient.backend) == (now.id, now.backend)
            if before.provisional and same:
                self.gradients[place] = checked
                return
        self.gradients.append(checked)
