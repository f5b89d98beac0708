"""What this process reads on its way: what it found holds as long as that stays as it is.

Python itself tells of each file that is opened, each module that nobody finds, and each variable of the environment
that is asked for, whoever does it. What belongs
to an installed package is left out: such packages change as a whole, and are watched as a whole.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradcheck_cli.contract.worker import Reads, Users
from gradcheck_cli.project import rule_pages

_SYSTEM = ("/proc", "/sys", "/dev")
_TO_WRITE = os.O_WRONLY | os.O_RDWR


class _Ear:
    """Hears what the interpreter does, once it is asked to listen."""

    def __init__(self) -> None:
        self.is_hung = False
        self.listens = False
        self.opened: dict[str, None] = {}
        self.sought: dict[str, None] = {}
        self.variables: dict[str, None] = {}
        self.users: list[Users] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.listens or event != "open":
            return
        if isinstance(arguments[0], str) and not (arguments[2] or 0) & _TO_WRITE:
            self.opened[arguments[0]] = None

    def find_spec(self, name: str, *_: Any) -> None:
        """Nothing: as the last one that is asked for a module, it hears of those that nobody finds."""
        if self.listens:
            self.sought[name] = None


_EAR = _Ear()


class _Environment(type(os.environ)):  # type: ignore[misc]
    """The environment, where each variable that is asked for is noted."""

    def __getitem__(self, name: str) -> str:
        if _EAR.listens:
            _EAR.variables[name] = None
        value: str = super().__getitem__(name)
        return value


def begin() -> None:
    """Listen from here on; what was read before is forgotten."""
    if not _EAR.is_hung:
        sys.addaudithook(_EAR.hear)
        sys.meta_path.append(_EAR)
        os.environ.__class__ = _Environment
        _EAR.is_hung = True
    _EAR.opened, _EAR.sought, _EAR.variables, _EAR.users = {}, {}, {}, []
    _EAR.listens = True


@contextlib.contextmanager
def unnoticed() -> Iterator[None]:
    """What is read here is looked through only: how it is asked for is noted in another way."""
    before, _EAR.listens = _EAR.listens, False
    try:
        yield
    finally:
        _EAR.listens = before


def note_users(home: Path, root: Path, names: set[str]) -> None:
    """It was asked which files of the project use this one."""
    asked = Users(home=str(home), root=str(root), names=sorted(names))
    if _EAR.listens and asked not in _EAR.users:
        _EAR.users.append(asked)


def end(but: str | None = None) -> Reads | None:
    """What was read since the beginning, but for what lies in one folder; None if nobody listened."""
    if not _EAR.listens:
        return None
    _EAR.listens = False
    installed = tuple(_installed_folders() if but is None else [*_installed_folders(), but])
    loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    files = map(
        os.path.abspath, [*_EAR.opened, *(f for f in loaded.values() if isinstance(f, str))]
    )
    own = {_source(f) for f in files if not f.startswith(installed)}
    there = {f for f in own if Path(f).is_file()}
    return Reads(
        files=sorted(there),
        missing=sorted(f for f in own - there if not Path(f).exists()),
        variables=sorted(_EAR.variables),
        absent=sorted(name for name in _EAR.sought if sys.modules.get(name) is None),
        users=_EAR.users,
        folders=sorted({f for f in map(os.path.abspath, sys.path) if not f.startswith(installed)}),
    )


def _source(path: str) -> str:
    """The source of compiled code."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path


def package_folders() -> set[str]:
    """Where Python and its packages lie."""
    paths = sysconfig.get_paths().items()
    libraries = {path for name, path in paths if name.endswith(("lib", "stdlib"))}
    return {*libraries, *site.getsitepackages(), site.getusersitepackages()}


def _installed_folders() -> set[str]:
    """Where Python, its packages and cgcheck itself lie, and what is no file."""
    paths = package_folders()
    own = {str(Path(__file__).resolve().parents[1]), str(rule_pages.folder())}
    places = {*paths, *map(os.path.realpath, paths), *own, *_SYSTEM}
    return {f"{place}{os.sep}" for place in places}
