"""Files as they are done, told in the order of the report: what is told is final, whatever the others bring."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Report, Status
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.joined import join
from gradcheck_cli.run.taken import bury
from gradcheck_cli.run.target_file import File

# Hears the reports of some files after those of others; all of them are those of the whole run.
Told = Callable[[Report], None]


@dataclass(slots=True)
class Unfolding:
    """The files of a run in order, of which the first few have been told."""

    files: Sequence[File]
    settings: Settings
    tell: Told | None
    _next: int = 0

    def go_on(self) -> None:
        """Tell of the next files, up to the first that is not done; what these trust is in their own file."""
        end = self._next
        for _, named in itertools.groupby(self.files[end:], key=lambda file: file.display):
            group = list(named)
            if not all(map(_is_final, group)):
                break
            end += len(group)
        self._tell(self.files[self._next : end], ())

    def end(self) -> None:
        """Tell of those that are left: nothing more will come."""
        self._tell(self.files[self._next :], self.files[: self._next])

    def _tell(self, files: Sequence[File], others: Sequence[File]) -> None:
        for file in files:
            bury(file)
        join(files, others)
        self._next += len(files)
        if self.tell is not None and files:
            self.tell(assemble(files, self.settings))


def report_of(files: Sequence[File], settings: Settings) -> Report:
    """What is shown of files to which nothing more comes."""
    join(files)
    return assemble(files, settings)


def _is_final(file: File) -> bool:
    """Will nothing change what is told of it? Gradients of a module may be defined in any file."""
    judged = [each.gradient for each in file.gradients if each.gradient.status is Status.CHECKED]
    own = {(gradient.name, gradient.backend) for gradient in judged}
    trusted = {
        (name, each.gradient.backend)
        for each in file.gradients
        for finding in each.findings
        for name in finding.trusts
    }
    of_module = any(task.module for task in file.tasks)
    return not (file.pending or of_module or trusted - own)
