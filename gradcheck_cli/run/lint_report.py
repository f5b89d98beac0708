"""The report of a run of the linter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.contract.report import SCHEMA_VERSION, Report, Summary, Tool
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.version import __version__
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.project.suppressions import Filter
from gradcheck_cli.run.assemble import counted
from gradcheck_cli.run.exit_code import exit_code
from gradcheck_cli.run.linting import Read, lint_files

_UNREAD = (RuleName.SYNTAX_ERROR, RuleName.UNREADABLE_FILE)


def read_alone(paths: Sequence[str], settings: Settings, root: Path) -> Report:
    """The report of these files, of which the source alone is read."""
    return report_of(lint_files(paths, settings, root), settings)


def _is_read(file: Read) -> bool:
    """Was it a text of Python?"""
    return all(finding.rule not in _UNREAD for finding in file.findings)


def report_of(files: Sequence[Read], settings: Settings) -> Report:
    """The report, with what the settings select."""
    chosen = Filter.of(settings.select, settings.ignore)
    findings = [f for file in files for f in chosen.keep(file.findings)]
    summary = Summary(
        exit_code=exit_code([], findings, [], settings), files=len(files), gradients=0, checked=0, unchecked=0,
        linted=sum(map(_is_read, files)), **counted(findings),
    )  # fmt: skip
    return Report(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cgcheck", version=__version__, jax=None),
        summary=summary,
        gradients=[],
        findings=findings,
        not_covered=[],
        suppressed=[
            s for f in files for s in chosen.suppressed(f.all_findings, f.ignores, f.display)
        ],
    )
