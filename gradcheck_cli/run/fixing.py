"""Repairs of the linter, file by file: written, or shown as a difference."""

from __future__ import annotations

import difflib
import functools
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.report import Finding
from gradcheck_cli.lint.fixed import fixed
from gradcheck_cli.project.files import NOTEBOOK
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.linting import SHOWN_AS, STANDARD_INPUT, files_of, findings_of

_END = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Change:
    """A file, its source before and after, and what was repaired."""

    path: Path
    display: str
    encoding: str
    before: str
    after: str
    repaired: Sequence[Finding]

    def write(self) -> None:
        try:
            self.path.write_bytes(self.after.encode(self.encoding))
        except (OSError, UnicodeEncodeError) as error:
            raise CgcheckError(f"cannot write {self.path}: {error}") from None

    def difference(self) -> str:
        """As `diff -u` shows it, with lines of three around."""
        shown_as = self.display.lstrip("/")
        old, new = (io.StringIO(text).readlines() for text in (self.before, self.after))
        shown = difflib.unified_diff(old, new, f"a/{shown_as}", f"b/{shown_as}")
        return "".join(line if line.endswith("\n") else line + _END for line in shown)


def changes(
    paths: Sequence[str], settings: Settings, root: Path, *, unsafe: bool
) -> Iterator[Change]:
    """The files that repairs change, no notebooks; what cannot be read is the report's business."""
    for path, display in files_of(paths, settings, root):
        if path.suffix == NOTEBOOK:
            continue
        try:
            data = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            source = data.decode(encoding)
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
        find = functools.partial(findings_of, display=display, settings=settings)
        done = fixed(source, find, unsafe=unsafe)
        if done.repaired:
            yield Change(path, display, encoding, source, done.text, done.repaired)


def change_of_input(source: str, settings: Settings, *, unsafe: bool) -> Change:
    """What standard input is once it is repaired; it has no file to be written to."""
    find = functools.partial(findings_of, display=SHOWN_AS, settings=settings)
    done = fixed(source, find, unsafe=unsafe)
    return Change(Path(STANDARD_INPUT), SHOWN_AS, "utf-8", source, done.text, done.repaired)
