"""The report of a run of the linter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.contract.report import SCHEMA_VERSION, Report, Summary, Tool
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter
from gradcheck_cli.run.assemble import counted
from gradcheck_cli.run.exit_code import exit_code
from gradcheck_cli.run.linting import Read, lint_files


def read_alone(paths: Sequence[str], settings: Settings, root: Path) -> Report:
    """The report of these files, of which the source alone is read."""
    return report_of(lint_files(paths, settings, root), settings)


def report_of(files: Sequence[Read], settings: Settings) -> Report:
    """The report, with what the settings select."""
    chosen = Filter.of(settings.select, settings.ignore)
    findings = [f for file in files for f in chosen.keep(file.findings)]
    summary = Summary(
        exit_code=exit_code([], findings, [], settings), files=len(files), gradients=0, checked=0, unchecked=0,
        linted=len(files), **counted(findings),
    )  # fmt: skip
    return Report(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cgcheck", version=__version__, jax=None),
        summary=summary,
        gradients=[],
        findings=findings,
        not_covered=[],
    )
