"""`cgcheck PATH --watch`: again whenever a file of the project changes, until an interrupt."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.run.exit_code import INTERRUPTED

_FLAG = "--watch"
_MOST = 3  # names that are told
_PACE = 200  # milliseconds


def watch(root: Path) -> int:
    """Run this command anew at each change of a Python file or of the settings; the exit code of an interrupt, which ends it."""
    command = [sys.executable, "-m", "gradcheck_cli", *(a for a in sys.argv[1:] if a != _FLAG)]
    changes = _changes(root)
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run(command, check=False)
        typer.echo(f"cgcheck: waiting for changes in {root} (Ctrl-C ends)", err=True)
        for changed in changes:
            typer.echo(f"cgcheck: {_named(changed, root)} changed", err=True)
            subprocess.run(command, check=False)
    return INTERRUPTED


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
    names = sorted(path.relative_to(root).as_posix() for path in changed)
    more = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {more} more" if more > 0 else "")
