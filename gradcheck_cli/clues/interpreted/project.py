"""What an import in one file of a project means: the home file, or a package around it."""

from __future__ import annotations

import ast
from pathlib import Path

from gradcheck_cli.clues.interpreted.library import ROOTS


def parsed(path: Path) -> ast.Module | None:
    """The syntax tree of a file that can be read."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


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
