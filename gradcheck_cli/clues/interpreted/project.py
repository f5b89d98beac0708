"""Files that may call what a file defines: it itself, and those of the project that import from it."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.clues.interpreted.library import ROOTS

_MOST_LOOKED_AT, _MOST_FILES, _MOST_BYTES = 400, 50, 60_000
_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_IMPORT = re.compile(r"^\s*((?:from|import)\s.*)$", re.MULTILINE)
_ELSEWHERE = frozenset(
    {"site-packages", "node_modules", "build", "dist", "venv", "env", "__pycache__"}
)


def parsed(path: Path) -> ast.Module | None:
    """The syntax tree of a file that can be read."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def users(home: Path, root: Path, names: set[str]) -> Iterator[Path]:
    """Small files under the project's root that import from this one, tests first."""
    if not home.is_relative_to(root) or "site-packages" in home.parts:
        return
    words = re.compile(rf"\b({re.escape(home.stem)}|{re.escape(home.parent.name)})\b")
    count = 0
    for path in _sources(root):
        text = "" if path == home else _text(path)
        lines = " ".join(_IMPORT.findall(text))
        beside = path.parent == home.parent and "from ." in lines
        if (beside or words.search(lines)) and any(name in text for name in names):
            yield path
            count += 1
            if count >= _MOST_FILES:
                return


def root_of(path: Path) -> Path:
    """The folder of the project that the file belongs to; its own folder, if none is marked as one."""
    marked = (f for f in path.parents if any((f / mark).exists() for mark in _MARKS))
    return next(marked, path.parent)


def _sources(root: Path) -> list[Path]:
    found: list[Path] = []
    for folder, inside, files in os.walk(root):
        kept = (n for n in inside if n not in _ELSEWHERE and not n.startswith("."))
        inside[:] = sorted(kept, key=lambda n: (not n.startswith("test"), n))
        found += [Path(folder, name) for name in sorted(files) if name.endswith(".py")]
        if len(found) >= _MOST_LOOKED_AT:
            break
    return found[:_MOST_LOOKED_AT]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, ValueError):
        return ""


def is_module(home: Path, here: Path, module: str, level: int) -> bool:
    """Does an import in the file `here` mean the home file by this module name?"""
    parts = module.split(".") if module else []
    own = list(home.with_suffix("").parts)
    if home.stem == "__init__":
        own.pop()
    if level:
        folder = list(here.parent.parts)
        return [*folder[: len(folder) - level + 1], *parts] == own
    if not parts or parts[0] in ROOTS or own[-len(parts) :] != parts:
        return False
    nearer = here.parent / f"{parts[0]}.py"
    return len(parts) > 1 or nearer == home or not nearer.is_file()


def is_package(home: Path, here: Path, module: str, level: int) -> bool:
    """Does the import mean a package that the home file lies in?"""
    parts = module.split(".") if module else []
    if level:
        folder = list(here.parent.parts)
        wanted = [*folder[: len(folder) - level + 1], *parts]
        return list(home.parent.parts[: len(wanted)]) == wanted
    if not parts or parts[0] in ROOTS:
        return False
    return any(
        list(folder.parts[-len(parts) :]) == parts and (folder / "__init__.py").is_file()
        for folder in home.parents
    )
