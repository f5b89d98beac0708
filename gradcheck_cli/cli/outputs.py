"""Where reports go, to standard output or to files, and when: while files are done, or at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from gradcheck_cli.cli.terminal import clear_line, leave_standard_output
from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.report import Report
from gradcheck_cli.contract.sweep_map import Map
from gradcheck_cli.report import (
    DRAWN,
    FORMATS,
    MAP_FORMATS,
    UNFOLDING,
    Unfolded,
    begin,
    render,
    render_map,
)
from gradcheck_cli.report.closing import closing
from gradcheck_cli.report.from_here import from_here
from gradcheck_cli.report.look import Look

_Target = tuple[str, str | None]  # a format, and a file; none: standard output


@dataclass(frozen=True, slots=True)
class Outputs:
    """Pairs of a format and a file (None: standard output)."""

    targets: Sequence[_Target]
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

    def write(self, report: Report, root: Path) -> None:
        """The whole report in each format."""
        Writing(self, root, report.summary.files, lambda part: part).end(report)

    def colored(self, file: str | None) -> bool:
        import os

        if self.color != "auto":
            return self.color == "always"
        if os.environ.get("FORCE_COLOR") and file is None:
            return True
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        return file is None and sys.stdout is not None and sys.stdout.isatty() and not plain


@dataclass(slots=True)
class Writing:
    """Reports while they are written: file by file where the format allows it, else at the end.

    An interrupt loses nothing: what was told and not yet written is written at the end.
    """

    outputs: Outputs
    root: Path
    files: int
    news: Callable[[Report], Report]  # a part, without what is known
    _begun: dict[_Target, Unfolded] = field(default_factory=dict)
    _untold: list[Report] = field(default_factory=list)
    _texts: list[tuple[_Target, str]] = field(default_factory=list)
    _sinks: dict[str | None, TextIO | None] = field(default_factory=dict)

    def tell(self, part: Report) -> None:
        """What there is to say of some files, after those before."""
        self._untold.append(self.news(part))
        self._write()

    def end(self, report: Report) -> None:
        """What is left to say; the report is that of all files."""
        if not self._begun and not self._untold:
            self._untold.append(report)
        self._write()
        for target in self.outputs.targets:
            shown = self._shown(report, target)
            whole = target[0] not in UNFOLDING
            text = render(target[0], shown, self._look(target)) if whole else self._unfolded(target).end(shown)  # fmt: skip
            self._texts.append((target, text))
        self._write()
        for file, sink in self._sinks.items():
            if file is not None and sink is not None:
                sink.close()
        files = [file for _, file in self.outputs.targets if file is not None]
        if len(files) == len(self.outputs.targets) and not self.outputs.quiet:
            print(f"cgcheck: {closing(report)} Written to {', '.join(files)}.", file=sys.stderr)

    def _write(self) -> None:
        """Bring to paper what was told, each thing once it is there."""
        clear_line()
        while self._untold:
            targets = [target for target in self.outputs.targets if target[0] in UNFOLDING]
            part = self._untold[0]
            self._texts += [(t, self._unfolded(t).add(self._shown(part, t))) for t in targets]
            self._untold.pop(0)
        while self._texts:
            (_, file), text = self._texts[0]
            self._put(text, file)
            self._texts.pop(0)

    def _put(self, text: str, file: str | None) -> None:
        """Write to a file, which stays open, or to standard output; where nobody reads that any more, nothing."""
        try:
            if file not in self._sinks:
                self._sinks[file] = sys.stdout if file is None else _opened(file)
            sink = self._sinks[file]
            if sink is not None:
                sink.write(text)
                sink.flush()
        except BrokenPipeError:
            self._sinks[file] = None
            if file is None:
                leave_standard_output()
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror}") from None

    def _unfolded(self, target: _Target) -> Unfolded:
        if target not in self._begun:
            self._begun[target] = begin(target[0], self._look(target), self.files)
        return self._begun[target]

    def _look(self, target: _Target) -> Look:
        of = self.outputs
        base = Path.cwd() if _is_read_here(*target) else self.root
        return Look(base, color=of.colored(target[1]), verbose=of.verbose, quiet=of.quiet)

    def _shown(self, report: Report, target: _Target) -> Report:
        return from_here(report, self.root, Path.cwd()) if _is_read_here(*target) else report


def _is_read_here(name: str, file: str | None) -> bool:
    """Is it for people, in the folder that they are in?"""
    return file is None and name in ("text", "concise")


def map_targets(formats: Sequence[str]) -> list[tuple[str, str | None]]:
    """Pairs of a format that a sweep's map has and a file."""
    return _targets(formats, MAP_FORMATS)


def write_map(sweep: Map, targets: Sequence[tuple[str, str | None]], width: int) -> None:
    """The map of a sweep in each of the formats."""
    for name, file in targets:
        text = render_map(name, sweep, width)
        if file is not None:
            with _opened(file) as stream:
                stream.write(text)
        elif sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()


def _targets(formats: Sequence[str], known: Collection[str]) -> list[tuple[str, str | None]]:
    """Each format with the file that it goes to; one of them at most to standard output."""
    found: list[tuple[str, str | None]] = []
    for text in formats:
        name, _, file = text.partition(":")
        if name not in known:
            raise UsageError(f"unknown output format `{name}`; known: {', '.join(known)}")
        target = name, file or None
        if target not in found:
            found.append(target)
    files = [file for _, file in found if file is not None]
    if twice := next((file for file in files if files.count(file) > 1), None):
        raise UsageError(f"two formats would be written to {twice}")
    if sum(file is None for _, file in found) > 1:
        raise UsageError(
            "only one format can go to standard output; give the others a file, as json:FILE"
        )
    return found


def _opened(file: str) -> TextIO:
    try:
        return Path(file).open("w", encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
