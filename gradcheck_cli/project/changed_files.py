"""What differs from a commit, and what imports it: the part of a project that a change can have broken."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.project.module_files import absolute, module_name, source_below

LAST_COMMIT = "HEAD"


def changed_since(revision: str, folder: Path) -> set[Path]:
    """The files of the repository around a folder that differ from a commit, and those that git does not know yet."""
    if revision.startswith("-"):
        raise UsageError(f"--since: `{revision}` is no revision")
    top = Path(_git(["rev-parse", "--show-toplevel"], folder).strip())
    differ = _git(["diff", "--name-only", "-z", "--diff-filter=d", revision, "--"], top)
    new = _git(["ls-files", "--others", "--exclude-standard", "-z"], top)
    return {(top / name).resolve() for name in (differ + new).split("\0") if name}


def with_importers(changed: set[Path], files: Sequence[Path]) -> set[Path]:
    """The changed files among these, and those that import one of them, by however many steps."""
    own = [file.resolve() for file in files]
    roots = list(dict.fromkeys(module_name(file)[0] for file in own))
    imports = {file: set(_imported(file, roots)) for file in own}
    reached = set(changed)
    while True:
        more = {file for file, its in imports.items() if file not in reached and its & reached}
        if not more:
            return reached & imports.keys()
        reached |= more


def _imported(file: Path, roots: Sequence[Path]) -> Iterator[Path]:
    """The files below these folders that a file imports, and the packages around them; its own folder's first."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    folders = [module_name(file)[0], *roots]
    for name in dict.fromkeys(name for node in ast.walk(tree) for name in _names(node, file)):
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            sources = (source_below(folder, ".".join(parts[:count])) for folder in folders)
            source = next((source for source in sources if source is not None), None)
            if source is not None:
                yield source.resolve()


def _names(node: ast.AST, file: Path) -> Iterator[str]:
    """The dotted names of what a statement imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            package = absolute(file, module or "", level)
            yield from (f"{package}.{alias.name}" for alias in names if package)


def _git(arguments: Sequence[str], folder: Path) -> str:
    git = shutil.which("git")
    if git is None:
        raise UsageError("--changed needs git, which is not installed")
    done = subprocess.run(
        [git, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise UsageError(f"--changed: git says: {said[0] if said else 'nothing'}")
    return done.stdout
