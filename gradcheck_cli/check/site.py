"""The site of a gradient: where findings show it, and which files are the user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from gradcheck_cli.contract.worker import Task
from gradcheck_cli.discover import lines
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.subject.protocol import CustomGradient, Own


def site_of(gradient: CustomGradient, task: Task, path: str) -> Site:
    """Where the gradient is shown to be."""
    source = gradient.place.path if task.module else path
    line, column, end = lines.definition(source, gradient.place)
    shown = lines.shown(gradient.place.path, task.root) if task.module else task.display
    return Site(
        shown, line, column, end, gradient.place.qualname, task.module or task.display, task.root,
        lines.header_end(source, line),
    )  # fmt: skip


def own_files(task: Task, module: ModuleType) -> Own:
    """Whose code is the user's: the project's files, or the checked package's own."""
    if not task.module:
        root, here = str(Path(task.root).resolve()), str(Path(task.path).resolve())
        site = tuple(p for p in map(str, sys.path) if p.endswith("site-packages"))
        return lambda path: (
            path == here or (path.startswith(root + "/") and not path.startswith(site))
        )
    package = sys.modules[module.__name__.partition(".")[0]]
    folders = tuple(f"{Path(p).resolve()}/" for p in getattr(package, "__path__", []))
    return lambda path: bool(folders) and path.startswith(folders)
