"""A change of a file: written, shown as a difference, or taken back."""

from __future__ import annotations

import difflib
import io
import shutil
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.report import Finding

_END = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Text:
    """What a file holds, and the encoding that it declares."""

    source: str
    encoding: str


def text_of(path: Path) -> Text | None:
    """The text of a Python file; None if it cannot be read as one."""
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return Text(data.decode(encoding), encoding)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Change:
    """A file, its source before (nothing, if there is none) and after, and what was repaired."""

    path: Path
    display: str
    encoding: str
    before: str
    after: str
    repaired: Sequence[Finding]

    def write(self) -> bool:
        """Write it; False if the file is not the one any more that was looked at."""
        return self._put(self.before, self.after)

    def take_back(self) -> bool:
        """Write what was there before; False if somebody has written since."""
        return self._put(self.after, self.before)

    def difference(self) -> str:
        """As `diff -u` shows it, with lines of three around."""
        shown_as = self.display.lstrip("/")
        old, new = (io.StringIO(text).readlines() for text in (self.before, self.after))
        shown = difflib.unified_diff(old, new, f"a/{shown_as}", f"b/{shown_as}")
        return "".join(line if line.endswith("\n") else line + _END for line in shown)

    def _put(self, expected: str, text: str) -> bool:
        """Put a text in place of another, all of it or nothing."""
        beside = self.path.with_name(f".{self.path.name}.cgcheck")
        try:
            is_new = not self.path.exists()
            if (b"" if is_new else self.path.read_bytes()) != self._bytes(expected):
                return False
            beside.write_bytes(self._bytes(text))
            if not is_new:
                shutil.copymode(self.path, beside)
            beside.replace(self.path.resolve())
        except (OSError, UnicodeEncodeError) as error:
            beside.unlink(missing_ok=True)
            raise CgcheckError(f"cannot write {self.path}: {error}") from None
        return True

    def _bytes(self, text: str) -> bytes:
        return text.encode(self.encoding)
