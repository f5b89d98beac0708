"""What to do about a module that is not there: the task's own, one of the project, or one to install."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from gradcheck_cli.contract.worker import Task
from gradcheck_cli.project.framework_marks import NAMES
from gradcheck_cli.project.settings import root_of

_ALIKE = 0.85  # of a name's letters: `jaxx`
_SOURCES = ("src", "lib", "python")  # where a project may keep its packages


def missing(name: str, task: Task) -> str:
    """Which module is missing, and where it could come from; nothing where the error names none."""
    if not name:
        return ""
    if (task.module or "").startswith(name):
        return f"there is no module `{name}`"
    says = f"the module imports `{name}`"
    package = top_package(name)
    places = _places(package)
    if places and "." in name:
        return f"{says}, which the package `{package}` in {_shown(Path(places[0]))} does not have{_meant(name)}"
    root = _root_that_holds(package, Path(task.path)) if task.path else None
    if root is not None and package not in NAMES:  # a folder `torch` is no PyTorch
        way = f"install the project (`pip install -e .`), or set `PYTHONPATH={_shown(root)}`"
        return f"{says}, which is not on the path, though it is in {_shown(root)}: {way}"
    here = f"{says}, which is not installed here"
    if is_optional(name, task):
        return f"{here}, and may be missing: `optional-imports` names it"
    known = [module.name for module in pkgutil.iter_modules()]
    close = [] if package in known else get_close_matches(package, known, n=1, cutoff=_ALIKE)
    cure = f"is `{close[0]}` meant? Else" if close else f"pip install {package}, or"
    return f"{here}: {cure} name it in `optional-imports`"


def is_optional(name: str, task: Task) -> bool:
    """Do the settings say that it may be missing?"""
    return top_package(name) in map(top_package, task.optional_imports)


def top_package(name: str) -> str:
    """The package that a module belongs to, as one imports it."""
    return name.replace("-", "_").partition(".")[0]


def _places(package: str) -> Sequence[str]:
    """The folders of a package that can be imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ()
    return [] if spec is None else list(spec.submodule_search_locations or ())


def _meant(name: str) -> str:
    """The module of the same parent that is called nearly so."""
    parent, _, last = name.rpartition(".")
    within = (module.name for module in pkgutil.iter_modules(_places(parent)))
    close = get_close_matches(last, within, n=1)
    return f"; did you mean `{parent}.{close[0]}`?" if close else ""


def _root_that_holds(package: str, path: Path) -> Path | None:
    """The folder of the project that would have to be on the path."""
    return next((root for root in _roots(path) if _holds(root, package)), None)


def _roots(path: Path) -> Iterator[Path]:
    """The folders of the project from which modules may be imported, nearest first."""
    parents = path.resolve().parents
    top = root_of(path.resolve())
    within = parents.index(top) if top in parents else 0
    for folder in parents[: within + 1]:
        yield folder
        yield from (folder / name for name in _SOURCES)


def _holds(root: Path, package: str) -> bool:
    """Does a package of this name lie there, or a namespace, which has only packages inside?"""
    folder = root / package
    inside = (folder.glob(pattern) for pattern in ("*.py", "*/*.py"))
    return (root / f"{package}.py").is_file() or any(any(files) for files in inside)


def _shown(folder: Path) -> str:
    """The folder as one would type it here."""
    return os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)
