"""The CLI's side: targets → workers → events → one report and an exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.project import skimming
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.exit_code import INTERRUPTED
from gradcheck_cli.run.result import Result
from gradcheck_cli.run.result_cache import ResultCache
from gradcheck_cli.run.skims import Skims
from gradcheck_cli.run.tasks import TargetReader
from gradcheck_cli.run.unfolding import Told, Unfolding
from gradcheck_cli.run.work import Progress, Work


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
            skims=Skims(None if self.results is None else self.results.parent),
        )  # fmt: skip

    def run(
        self, targets: Sequence[Target], progress: Progress, tell: Told | None = None
    ) -> Result:
        """Check all targets; nothing that user code does stops the others, and an interrupt keeps what is done.

        Files are told as they are done, in the order of the report.
        """
        skimming.forget()
        reader = self.reader
        files = sorted(map(reader.read, targets), key=lambda file: file.display)
        reader.skims.save()
        kept = None if self.results is None else ResultCache(self.results)
        unfolding = Unfolding(files, self.settings, tell)
        work = Work(files, unfolding, progress, kept)
        work.recall()
        stopped = work.do(self.settings, self.cache, reads=self.reads)
        unfolding.end()
        if kept is not None:
            kept.tidy()
        report = assemble(files, self.settings, self.at, durations=self.durations)
        if stopped:  # perhaps by a pager that was left, when all was done
            report = replace(report, summary=replace(report.summary, exit_code=INTERRUPTED))
        return Result(report, files, self.settings)
