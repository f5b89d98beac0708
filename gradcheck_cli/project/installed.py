"""The files of an installed package or module, and those that define the names it shows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gradcheck_cli.project.module_files import folders, installed
from gradcheck_cli.project.origins import names_in

_FURTHEST = 5  # modules between the one that shows a name and the one that defines it
_TESTS = re.compile(r"tests?|test_\w+|\w+_test|conftest")


def sources(name: str) -> dict[str, Path]:
    """All modules of the package but its tests, or the module; where it only shows names, what defines them."""
    inside = {module: path for folder in folders(name) for module, path in _below(folder, name)}
    first = installed(name)
    if first is None:
        return inside
    own = {name: first} | inside
    if _defines(first):
        return own
    package = f"{name.partition('.')[0]}."
    shown = [full for full in _imported(first).values() if full.startswith(package)]
    return own | dict(filter(None, (_home(full, package, _FURTHEST) for full in shown)))


def _below(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The modules in the folder of this package, sorted, without those that hold its tests."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        if all(part.isidentifier() and not _TESTS.fullmatch(part) for part in parts):
            yield ".".join([name, *(parts[:-1] if parts[-1] == "__init__" else parts)]), path


def _home(full: str, package: str, furthest: int) -> tuple[str, Path] | None:
    """The module that defines what has this whole name, and its file."""
    module, _, name = full.rpartition(".")
    path = installed(module) if module else None
    further = _imported(path).get(name, "") if path is not None and furthest else ""
    if further.startswith(package) and further != full:
        return _home(further, package, furthest - 1)
    return None if path is None else (module, path)


def _defines(path: Path) -> bool:
    """Has the module functions or classes of its own that are public?"""
    return any(
        isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not name.startswith("_")
        for name, node in names_in(path).own.items()
    )


def _imported(path: Path) -> Mapping[str, str]:
    return names_in(path).imported
