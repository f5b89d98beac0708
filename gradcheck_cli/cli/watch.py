"""`cgcheck PATH --watch`: again whenever a file of the project changes, until an interrupt."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import typer

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.run.exit_code import INTERRUPTED

_FLAG = "--watch"
_MOST = 3  # names that are told
_PACE = 200  # milliseconds


def watch(root: Path) -> int:
    """Run this command anew at each change of a Python file or of the settings; the exit code of an interrupt, which ends it."""
    asked = (a for a in sys.argv[1:] if a != _FLAG)
    command = [sys.executable, "-P", "-m", "gradcheck_cli", *asked]
    changes = _changes(root)
    with contextlib.suppress(KeyboardInterrupt):
        _run(command)
        typer.echo(f"cgcheck: waiting for changes in {root} (Ctrl-C ends)", err=True)
        for changed in changes:
            typer.echo(f"cgcheck: {_named(changed, root)} changed", err=True)
            _run(command)
    return INTERRUPTED


def _run(command: Sequence[str]) -> None:
    """One check; where an interrupt ends it, it shows what is done first."""
    with subprocess.Popen(command) as check:
        try:
            check.wait()
        except KeyboardInterrupt:
            check.wait()
            raise


def _changes(root: Path) -> Iterator[set[Path]]:
    """What changes, as it changes; from here on."""
    try:
        from watchfiles import PythonFilter
        from watchfiles import watch as watched
    except ImportError:
        raise UsageError("--watch needs watchfiles: pip install 'cgcheck[watch]'") from None
    files = PythonFilter(extra_extensions=(".toml",))
    news = watched(
        root, watch_filter=files, raise_interrupt=False, yield_on_timeout=True, rust_timeout=_PACE
    )
    next(news)  # it stands from here on: what changes during the first check is not missed
    return ({Path(path) for _, path in each} for each in news if each)


def _named(changed: Iterable[Path], root: Path) -> str:
    names = sorted(os.path.relpath(path.resolve(), root.resolve()) for path in changed)
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")
