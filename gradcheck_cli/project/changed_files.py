"""What differs from a commit, and what imports it: the part of a project that a change can have broken."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.project.module_files import absolute

LAST_COMMIT = "HEAD"
_UNKNOWN = ("ls-files", "--others", "--exclude-standard")


def changed_since(revision: str, folder: Path) -> set[Path]:
    """The files of the repository around a folder that differ from a commit (some may be gone), and those that git does not know yet."""
    if revision.startswith("-"):
        raise UsageError(f"--since: `{revision}` is no revision")
    top = _top(folder)
    differ = _git(["diff", "--name-only", "-z", "--no-renames", revision, "--"], top)
    return _paths(differ, top) | _paths(_git([*_UNKNOWN, "-z"], top), top)


def sources_of(folder: Path) -> set[Path]:
    """All Python files of the repository around a folder: between two that were asked for others may stand."""
    top = _top(folder)
    known = _git(["ls-files", "-z", "--", "*.py"], top)
    return _paths(known, top) | _paths(_git([*_UNKNOWN, "-z", "--", "*.py"], top), top)


def with_importers(changed: set[Path], files: Collection[Path]) -> set[Path]:
    """The changed files, and those of the given ones that import one of them, by however many steps."""
    waiting = {file.resolve() for file in files} - changed
    texts = {file: text for file in waiting if (text := _text(file))}
    reached, latest = set(changed), set(changed)
    while latest:
        names = {name for file in latest for name in _called(file)}
        words = {name.rpartition(".")[2].encode() for name in names}
        words.add(b"from .")  # runs what stands in the package's own file, whatever it is called
        likely = [file for file, text in texts.items() if any(word in text for word in words)]
        latest = {file for file in likely if not names.isdisjoint(_imported(file, texts[file]))}
        reached |= latest
        for file in latest:
            del texts[file]
    return reached


def _called(file: Path) -> Iterator[str]:
    """The names by which a file can be imported: from its folder, and from each folder above."""
    parts = [] if file.name == "__init__.py" else [file.stem]
    for folder in file.parents:
        if parts:
            yield ".".join(parts)
        parts = [folder.name, *parts]


def _text(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _imported(file: Path, text: bytes) -> set[str]:
    """The dotted names of what a file imports, and of the packages around them."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    whole = {name for node in ast.walk(tree) for name in _names(node, file)}
    return {".".join(name.split(".")[:n]) for name in whole for n in range(1, name.count(".") + 2)}


def _names(node: ast.AST, file: Path) -> Iterator[str]:
    """The dotted names of what a statement imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            package = absolute(file, module or "", level)
            yield from (f"{package}.{alias.name}" for alias in names if package)


def _top(folder: Path) -> Path:
    return Path(_git(["rev-parse", "--show-toplevel"], folder).strip())


def _paths(names: str, top: Path) -> set[Path]:
    return {(top / name).resolve() for name in names.split("\0") if name}


def _git(arguments: Sequence[str], folder: Path) -> str:
    git = shutil.which("git")
    if git is None:
        raise UsageError("what has changed is git's to say, and git is not installed")
    done = subprocess.run(
        [git, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise UsageError(
            f"what has changed is git's to say; it says: {said[0] if said else 'nothing'}"
        )
    return done.stdout
