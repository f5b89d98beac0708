"""Where the source of a module lies, and what a file is called as a module; found without running anything."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path


def module_name(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name from there."""
    path = path.resolve()
    parts = [] if path.name == "__init__.py" else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts) or path.stem


def absolute(path: Path, module: str, level: int) -> str:
    """The whole name of what a file imports `from ..module`."""
    if not level:
        return module
    _, name = module_name(path)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    outer = package[: len(package) - level + 1]
    return ".".join([*outer, *([module] if module else [])])


def source_below(folder: Path, name: str) -> Path | None:
    """The file of a module by its name from this folder; of a package, its `__init__.py`."""
    place = folder.joinpath(*name.split("."))
    here = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((path for path in here if path.is_file()), None)


def installed(name: str) -> Path | None:
    """The file of a module that this Python can import; none for what has no source, or none of its own."""
    for folder in _homes(name.partition(".")[0]):
        path = source_below(folder, name)
        if path is not None:
            return path
    return None


def folders(name: str) -> Iterator[Path]:
    """The folders of an installed package; a namespace may have several."""
    for home in _homes(name.partition(".")[0]):
        folder = home.joinpath(*name.split("."))
        if folder.is_dir():
            yield folder


def _homes(top: str) -> Sequence[Path]:
    """The folders that hold a top-level module (looking deeper would run its code here)."""
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return [Path(place).parent for place in spec.submodule_search_locations]
    return [Path(spec.origin).parent] if spec.origin and Path(spec.origin).is_file() else []
