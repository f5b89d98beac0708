"""Files that may call what a file defines: those of the project that import from it."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.project.reads import note_users, unnoticed

_MOST_LOOKED_AT, _MOST_FILES, _MOST_BYTES = 400, 50, 60_000
_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_IMPORT = re.compile(r"^\s*((?:from|import)\s.*)$", re.MULTILINE)
_ELSEWHERE = frozenset(
    {"site-packages", "node_modules", "build", "dist", "venv", "env", "__pycache__"}
)


class Sources:
    """The small Python files under a project's root, tests first; each is read once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._texts: dict[Path, str] = {}
        self._imports: dict[Path, str] = {}

    def users(self, home: Path, names: set[str]) -> Iterator[Path]:
        """The files that import from this one and speak of one of the names."""
        if not home.is_relative_to(self.root) or "site-packages" in home.parts:
            return
        words = re.compile(rf"\b({re.escape(home.stem)}|{re.escape(home.parent.name)})\b")
        count = 0
        for path in self._paths:
            lines = "" if path == home else self._import_lines(path)
            beside = path.parent == home.parent and "from ." in lines
            if (beside or words.search(lines)) and any(name in self.text(path) for name in names):
                yield path
                count += 1
                if count >= _MOST_FILES:
                    return

    def text(self, path: Path) -> str:
        """The text of a file; that it was looked at is no reason to look again when it changes."""
        if path not in self._texts:
            with unnoticed():
                self._texts[path] = _text(path)
        return self._texts[path]

    def _import_lines(self, path: Path) -> str:
        if path not in self._imports:
            self._imports[path] = " ".join(_IMPORT.findall(self.text(path)))
        return self._imports[path]

    @functools.cached_property
    def _paths(self) -> list[Path]:
        found: list[Path] = []
        with unnoticed():
            for folder, inside, files in os.walk(self.root):
                kept = (n for n in inside if n not in _ELSEWHERE and not n.startswith("."))
                inside[:] = sorted(kept, key=lambda n: (not n.startswith("test"), n))
                found += [Path(folder, name) for name in sorted(files) if name.endswith(".py")]
                if len(found) >= _MOST_LOOKED_AT:
                    break
        return found[:_MOST_LOOKED_AT]


def users(home: Path, root: Path, names: set[str]) -> Iterator[Path]:
    """Small files under the project's root that import from this one, tests first."""
    note_users(home, root, names)
    return Sources(root).users(home, names)


def root_of(path: Path) -> Path:
    """The folder of the project that the file belongs to; its own folder, if none is marked as one."""
    marked = (f for f in path.parents if any((f / mark).exists() for mark in _MARKS))
    return next(marked, path.parent)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, ValueError):
        return ""
