"""Lines: where a definition's name stands, and where an import raised."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from pathlib import Path

from gradcheck_cli.subject.results import Place

_LOOK_AHEAD = 40


def definition(path: str, place: Place) -> tuple[int, int, int]:
    """Line, column and end column of the name in its `def`, below any decorators."""
    name = place.qualname.rpartition(".")[2]
    pattern = re.compile(rf"\s*(?:(?:async\s+)?def|class)\s+({re.escape(name)})\b")
    for line in range(place.line, place.line + _LOOK_AHEAD):
        text = linecache.getline(path, line)
        match = pattern.match(text)
        if match:
            return line, match.start(1) + 1, match.end(1) + 1
    text = linecache.getline(path, place.line)
    start = len(text) - len(text.lstrip()) + 1
    return place.line, start, max(start + 1, len(text.rstrip()) + 1)


def header_end(path: str, line: int) -> int:
    """The last line of the `def` or `class` statement that begins here, before its body."""
    for number in range(line, line + _LOOK_AHEAD):
        code = linecache.getline(path, number).partition("#")[0].rstrip()
        if code.endswith(":"):
            return number
    return line


def raised_at(error: BaseException, path: str) -> int:
    """The last line of the file itself in the error's traceback."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return error.lineno or 1
    resolved = str(Path(path).resolve())
    last = 1
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename in (path, resolved):
            last = frame.lineno or last
    return last


def shown(path: str, root: str) -> str:
    """A file as reports name it: below site-packages, if it is installed, or below the project."""
    real = Path(path).resolve()
    _, installed, rest = real.as_posix().rpartition("/site-packages/")
    if installed:
        return rest
    for folder in (sysconfig.get_paths()["stdlib"], root):
        try:
            return real.relative_to(Path(folder).resolve()).as_posix()
        except ValueError:
            continue
    return Path(path).as_posix()
