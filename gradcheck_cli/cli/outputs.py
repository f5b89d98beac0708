"""Where reports go: text to the terminal, JSON to standard output or a file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.contract.worker import Doing, Event
from gradcheck_cli.report import DRAWN, FORMATS, MAP_FORMATS, render, render_map
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.from_here import from_here
from gradcheck_cli.report.look import Look

_READ_HERE = ("text", "concise")  # by people, in the folder that they are in

Progress = Callable[[str, Event | None], None]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Pairs of a format and a file (None: standard output)."""

    targets: Sequence[tuple[str, str | None]]
    color: str
    verbose: bool
    quiet: bool = False

    @staticmethod
    def parse(formats: Sequence[str], color: str, verbose: bool, quiet: bool = False) -> Outputs:
        return Outputs(_targets(formats, FORMATS), color, verbose, quiet)

    @property
    def draws(self) -> bool:
        """Does one of the formats draw what is measured along each argument?"""
        return any(name in DRAWN for name, _ in self.targets)

    @contextmanager
    def progress(self, files: int) -> Iterator[Progress]:
        """One changing line on standard error, if that is a terminal."""
        if not sys.stderr.isatty():
            yield lambda display, event: None
            return
        finished = 0

        def show(display: str, event: Event | None) -> None:
            nonlocal finished
            finished += event is None
            what = f"{event.gradient or ''} {event.text}" if isinstance(event, Doing) else ""
            text = f"[{finished}/{files}] {display} {what}".strip()
            sys.stderr.write(f"\r\x1b[K{text[:78]}")
            sys.stderr.flush()

        try:
            yield show
        finally:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def write(self, report: Report, root: Path) -> None:
        here = Path.cwd()
        for name, file in self.targets:
            read_here = file is None and name in _READ_HERE
            base, shown = (here, from_here(report, root, here)) if read_here else (root, report)
            look = Look(base, color=self._colored(file), verbose=self.verbose, quiet=self.quiet)
            _put(render(name, shown, look), file)
        if all(file is not None for _, file in self.targets) and not self.quiet:
            files = ", ".join(file for _, file in self.targets if file is not None)
            print(f"cgcheck: {closing(report)} Written to {files}.", file=sys.stderr)

    def _colored(self, file: str | None) -> bool:
        import os

        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("FORCE_COLOR") and file is None:
            return True
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return file is None and sys.stdout is not None and sys.stdout.isatty() and not plain


def map_targets(formats: Sequence[str]) -> list[tuple[str, str | None]]:
    """Pairs of a format that a sweep's map has and a file."""
    return _targets(formats, MAP_FORMATS)


def write_map(sweep: Map, targets: Sequence[tuple[str, str | None]], width: int) -> None:
    """The map of a sweep in each of the formats."""
    for name, file in targets:
        _put(render_map(name, sweep, width), file)


def _targets(formats: Sequence[str], known: Collection[str]) -> list[tuple[str, str | None]]:
    """Each format with the file that it goes to; one of them at most to standard output."""
    found: list[tuple[str, str | None]] = []
    for text in formats:
        name, _, file = text.partition(":")
        if name not in known:
            raise UsageError(f"unknown output format `{name}`; known: {', '.join(known)}")
        found.append((name, file or None))
    if sum(file is None for _, file in found) > 1:
        raise UsageError(
            "only one format can go to standard output; give the others a file, as json:FILE"
        )
    return found


def _put(text: str, file: str | None) -> None:
    if file is None:
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    try:
        Path(file).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
