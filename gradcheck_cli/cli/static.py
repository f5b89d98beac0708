"""`cgcheck check --static`: the sources alone, as `cgcheck lint` reads them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.cli.known import only_new
from gradcheck_cli.contract.report import Report
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.lint_report import read_alone
from gradcheck_cli.run.linting import displays_of


def static_report(
    paths: Sequence[str], settings: Settings, root: Path, *, named: str | None, update: bool
) -> Report:
    """What is new in the sources; `named` and `update` are what the command line says of a baseline."""
    read = read_alone(paths, settings, root)
    files = functools.partial(displays_of, paths, settings, root)
    return only_new(read, files, settings, root, named=named, update=update, static=True)
