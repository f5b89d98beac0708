"""Import a file as what it is: a module of its package, or a script that is not run as main."""

from __future__ import annotations

import importlib
import importlib.util
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
    if name in sys.modules or not _is_the_module(name, path):
        name = f"_cgcheck_{name}"  # a script that shares its name with a library
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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
