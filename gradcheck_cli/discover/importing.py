"""Import a file as what it is: a module of its package, or a script that is not run as main."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from gradcheck_cli.project.module_files import module_name


def import_file(path: Path) -> ModuleType:
    """The module of this file, with relative imports working."""
    root, name = module_name(path)
    sys.path.insert(0, str(root))
    if "." in name or path.name == "__init__.py":
        return importlib.import_module(name)
    levels = _relative_levels(path)
    if levels:
        return importlib.import_module(f"{_package_of(path, levels)}.{name}")
    if name in sys.modules or not _is_the_module(name, path):
        name = f"_cgcheck_{name}"  # a script that shares its name with a library
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _relative_levels(path: Path) -> int:
    """How many folders up the file imports from, relative to itself, though none of them is a package by an `__init__.py`."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 0  # importing it says why
    return max((n.level for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)), default=0)


def _package_of(path: Path, levels: int) -> str:
    """The name of a package that is the file's folder, inside of those above it that are needed; nothing else can be imported from there."""
    name = ""
    for folder in reversed(path.resolve().parents[:levels]):
        own = re.sub(r"\W", "_", folder.name)
        others = (f"_cgcheck_{own}{n or ''}" for n in itertools.count())
        names = itertools.chain([own], others)
        name = f"{name}.{own}" if name else next(n for n in names if _is_free(n, folder))
        package = ModuleType(name)
        package.__path__ = [str(folder)]
        sys.modules.setdefault(name, package)
    return name


def _is_free(name: str, folder: Path) -> bool:
    """May the folder have this name as a package: does nothing else go by it?"""
    if name in sys.modules:
        return list(getattr(sys.modules[name], "__path__", [])) == [str(folder)]
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None:
        return name.isidentifier()
    return spec.origin is None and list(spec.submodule_search_locations or ()) == [str(folder)]


def import_module(name: str) -> ModuleType:
    """An installed module by name; the working directory counts, as for `python -m`."""
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(name)


def home(module: ModuleType, names: Sequence[str]) -> ModuleType:
    """The module that defines these functions, where a package's module only shows them."""
    owners = {name.partition(".")[0] for name in names}
    homes = {getattr(getattr(module, owner, None), "__module__", None) for owner in owners}
    defining = sys.modules.get(str(homes.pop())) if len(homes) == 1 else None
    package = module.__name__.partition(".")[0]
    if defining is None or defining.__name__.partition(".")[0] != package:
        return module
    same = all(getattr(defining, o, None) is getattr(module, o) for o in owners)
    return defining if same else module


def _is_the_module(name: str, path: Path) -> bool:
    """Would `import name` give this very file?"""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return False
    return (
        spec is not None
        and spec.origin is not None
        and Path(spec.origin).resolve() == path.resolve()
    )
