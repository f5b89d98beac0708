"""What this process reads on its way: what it found holds as long as that stays as it is.

Python itself tells of each file that is opened, each folder that is listed, each module that nobody finds, and each
variable of the environment that is asked for, whoever does it. What belongs to an installed package is left out, unless
it is the one that is looked at: such packages change as a whole, and are watched as a whole.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradcheck_cli.contract.worker import Reads, Users
from gradcheck_cli.project import rule_pages

ALL = "*"  # in place of a variable: the whole environment
SCRATCH = str(
    Path(tempfile.gettempdir(), "cgcheck-hypothesis")
)  # what hypothesis writes for itself
_SYSTEM = ("/proc", "/sys", "/dev", SCRATCH)
_LISTINGS = ("os.listdir", "os.scandir")
_IMPORT = "importlib"  # what lists a folder to find modules and packages in it


class _Ear:
    """Hears what the interpreter does, once it is asked to listen."""

    def __init__(self) -> None:
        self.is_hung = False
        self.listens = False
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        self.opened: dict[str, None] = {}
        self.listed: dict[str, None] = {}
        self.sought: dict[str, None] = {}
        self.variables: dict[str, None] = {}
        self.users: list[Users] = []

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note a file that is opened to be read, or a folder that is listed."""
        if not self.listens or event not in ("open", *_LISTINGS):
            return
        path = "." if arguments[0] is None else arguments[0]
        if not isinstance(path, (str, bytes)):
            return  # a descriptor, of what was opened before
        where = _absolute(os.fsdecode(path))
        if event in _LISTINGS:
            if _IMPORT not in sys._getframe(1).f_code.co_filename:
                self.listed[where] = None
        elif not (arguments[2] or 0) & os.O_WRONLY:
            self.opened[where] = None

    def find_spec(self, name: str, *_: Any) -> None:
        """Nothing: as the last one that is asked for a module, it hears of those that nobody finds."""
        if self.listens:
            self.sought[name] = None


_EAR = _Ear()


class _Environment(os._Environ[str]):
    """The environment, where each variable that is asked for is noted."""

    def __getitem__(self, name: str) -> str:
        if _EAR.listens and isinstance(
            name, str
        ):  # the library itself tries bytes, and takes the error
            _EAR.variables[name] = None
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        if _EAR.listens:
            _EAR.variables[ALL] = None
        return super().__iter__()


def begin() -> None:
    """Listen from here on; what was read before is forgotten."""
    if not _EAR.is_hung:
        sys.addaudithook(_EAR.hear)
        sys.meta_path.append(_EAR)
        os.environ.__class__ = _Environment
        _EAR.is_hung = True
    _EAR.forget()
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


def end(but: str | None = None, target: str = "") -> Reads | None:
    """What was read since the beginning, but for what lies in one folder; None if nobody listened.

    Of what is installed only the package of the target counts.
    """
    if not _EAR.listens:
        return None
    _EAR.listens = False
    outside = _Outside(but, target)
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    files = [*_EAR.opened, *(_absolute(f) for f in loaded if isinstance(f, str))]
    own = {_source(f) for f in files if outside.holds(f)}
    there = {f for f in own if Path(f).is_file()}
    folders = filter(outside.holds, map(_absolute, sys.path))
    return Reads(
        files=sorted(there),
        missing=sorted(f for f in own - there if not Path(f).exists()),
        listed=sorted(f for f in _EAR.listed if outside.holds(f"{f}{os.sep}")),
        variables=sorted(_EAR.variables),
        absent=sorted(name for name in _EAR.sought if sys.modules.get(name) is None),
        users=_EAR.users,
        folders=sorted(set(folders)),
    )


class _Outside:
    """What lies outside of Python, its packages and cgcheck itself; the package of a target counts as outside."""

    def __init__(self, but: str | None, target: str) -> None:
        own = {str(Path(__file__).resolve().parents[1]), str(rule_pages.folder())}
        paths = package_folders()
        places = {*paths, *map(os.path.realpath, paths), *own, *_SYSTEM, *([but] if but else [])}
        self._inside = tuple(f"{place}{os.sep}" for place in places)
        home = max((place for place in self._inside if target.startswith(place)), key=len, default="")  # fmt: skip
        self._package = home + target[len(home) :].split(os.sep, maxsplit=1)[0] if home else ""

    def holds(self, path: str) -> bool:
        """Does this path lie there?"""
        of_target = bool(self._package) and path.startswith(self._package)
        return of_target or not path.startswith(self._inside)


def package_folders() -> set[str]:
    """Where Python and its packages lie."""
    paths = sysconfig.get_paths().items()
    libraries = {path for name, path in paths if name.endswith(("lib", "stdlib"))}
    return {*libraries, *site.getsitepackages(), site.getusersitepackages()}


def _absolute(path: str) -> str:
    return os.path.normpath(Path(path).absolute())


def _source(path: str) -> str:
    """The source of compiled code."""
    try:
        return importlib.util.source_from_cache(path) if path.endswith(".pyc") else path
    except ValueError:
        return path
