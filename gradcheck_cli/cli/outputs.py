"""Where reports go, to standard output or to files, and when: while files are done, or at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradcheck_cli.cli.terminal import clear_line
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
    """Reports while they are written: file by file where the format allows it, else at the end."""

    outputs: Outputs
    root: Path
    files: int
    news: Callable[[Report], Report]  # a part, without what is known
    _begun: dict[tuple[str, str | None], Unfolded] = field(default_factory=dict)

    def tell(self, part: Report) -> None:
        """What there is to say of some files, after those before."""
        self._add(self.news(part))

    def _add(self, part: Report) -> None:
        clear_line()
        for target in self.outputs.targets:
            if target[0] in UNFOLDING:
                new = target not in self._begun
                _put(self._unfolded(target).add(self._shown(part, target)), target[1], new=new)

    def end(self, report: Report) -> None:
        """What is left to say; the report is that of all files."""
        if not self._begun:
            self._add(report)
        for target in self.outputs.targets:
            name, file = target
            shown = self._shown(report, target)
            if name in UNFOLDING:
                _put(self._unfolded(target).end(shown), file, new=False)
            else:
                _put(render(name, shown, self._look(target)), file)
        files = [file for _, file in self.outputs.targets if file is not None]
        if len(files) == len(self.outputs.targets) and not self.outputs.quiet:
            print(f"cgcheck: {closing(report)} Written to {', '.join(files)}.", file=sys.stderr)

    def _unfolded(self, target: tuple[str, str | None]) -> Unfolded:
        if target not in self._begun:
            self._begun[target] = begin(target[0], self._look(target), self.files)
        return self._begun[target]

    def _look(self, target: tuple[str, str | None]) -> Look:
        of = self.outputs
        base = Path.cwd() if _is_read_here(*target) else self.root
        return Look(base, color=of.colored(target[1]), verbose=of.verbose, quiet=of.quiet)

    def _shown(self, report: Report, target: tuple[str, str | None]) -> Report:
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


def _put(text: str, file: str | None, *, new: bool = True) -> None:
    """Write to a file, or to the end of it; or to standard output."""
    if file is None:
        if sys.stdout is not None and text:  # closed by whoever started us
            sys.stdout.write(text)
            sys.stdout.flush()
        return
    try:
        with Path(file).open("w" if new else "a", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
