"""What comes of a run: its report, and what a command needs to know of its files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.worker import Script
from gradcheck_cli.project.files import named
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter, Unused
from gradcheck_cli.run.assemble import unused_ignores
from gradcheck_cli.run.exit_code import INTERRUPTED
from gradcheck_cli.run.target_file import File


@dataclass(frozen=True, slots=True)
class Result:
    """The report of a run under these settings, and its files."""

    report: Report
    files: Sequence[File]
    settings: Settings

    @property
    def stopped(self) -> bool:
        """Did the user stop it? Then it is what there was until then."""
        return self.report.summary.exit_code == INTERRUPTED

    @property
    def unused(self) -> list[Unused]:
        """Comments that suppress nothing."""
        chosen = Filter.of(self.settings.select, self.settings.ignore)
        return [item for file in self.files for item in unused_ignores(file, chosen)]

    @property
    def scripts(self) -> dict[str, Script]:
        """The scripts that were asked for, by the fingerprints of their findings."""
        checked = (checked for file in self.files for checked in file.gradients)
        return {name: script for each in checked for name, script in each.scripts.items()}

    @property
    def targets(self) -> dict[str, str]:
        """What to name on the command line so that a finding is looked for again, by its fingerprint."""
        own = [(file, finding) for file in self.files for finding in file.findings]
        own += [(file, f) for file in self.files for c in file.gradients for f in c.findings]
        return {f.fingerprint: named(file.display, f.gradient) for file, f in own if f.gradient}
