"""From what the user typed to the files and modules to look at."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pathspec

from gradcheck_cli.contract.errors import TargetError
from gradcheck_cli.project import installed
from gradcheck_cli.project.real_paths import below, forget, real

Spec = pathspec.GitIgnoreSpec

_PYTHON = ("", ".py", ".pyw")
NOTEBOOK = ".ipynb"


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to check: a file, or an installed module; perhaps only some of its functions.

    A file of an installed package has both: it goes by the module's name.
    """

    path: Path | None
    module: str | None
    functions: tuple[str, ...] = ()
    explicit: bool = True


def shown(path: Path, root: Path) -> str:
    """A file as it is shown: from the project's root on, if it lies there."""
    return below(path, real(root)) or path.as_posix()


def named(display: str, qualname: str) -> str:
    """How a function is named on the command line, also inside of another; what has no name goes by the one around it."""
    name = spoken(qualname)
    while "<" in name:
        name = name.rpartition(".")[0]
    return f"{display}:{name}" if name else display


def spoken(qualname: str) -> str:
    """A name as people write it: without Python's own word for what is made inside of a function."""
    return qualname.replace(".<locals>", "")


def resolve(
    arguments: Sequence[str], exclude: Sequence[str] = (), *, notebooks: bool = False
) -> list[Target]:
    """All targets, each once, in the order given (a folder's files sorted)."""
    forget()
    targets: list[Target] = []
    for argument in arguments:
        targets.extend(_resolve_one(argument, exclude, notebooks))
    return _merged(targets)


def without_excluded(arguments: Sequence[str], exclude: Sequence[str], root: Path) -> list[str]:
    """The arguments, but files that these patterns leave out, as a hook may name them."""
    excluded = Spec.from_lines(exclude)

    def is_left_out(argument: str) -> bool:
        path = Path(argument).resolve()
        inside = path.is_file() and path.is_relative_to(root)
        return inside and excluded.match_file(path.relative_to(root).as_posix())

    return [argument for argument in arguments if not is_left_out(argument)]


def _resolve_one(argument: str, exclude: Sequence[str], notebooks: bool) -> list[Target]:
    path = Path(argument)
    if notebooks and path.suffix == NOTEBOOK and path.is_file():
        return [Target(path, None)]
    if path.is_dir():
        endings = (".py", NOTEBOOK) if notebooks else (".py",)
        found = _python_files(path, exclude, endings)
        files = [Target(file, None, explicit=False) for file in found]
        if not files:
            left = ", or all are excluded" if exclude else ""
            raise TargetError(f"{argument}: no Python file in this folder{left}")
        return files
    if path.is_file():
        return [Target(_python(path), None)]
    if path.exists():
        raise TargetError(f"{argument}: neither a file nor a folder")
    head, function = _named_within(argument)
    if head and function.replace(".", "").isidentifier():
        if Path(head).is_file():
            return [Target(_python(Path(head)), None, (function,))]
        if _is_module(head):
            return [Target(None, head, (function,))]
    if _is_module(argument):
        return _installed(argument)
    raise TargetError(_missing(argument))


def _named_within(argument: str) -> tuple[str, str]:
    """File and name of `model.py:Layer.run`; pytest's `model.py::Layer::run` says the same."""
    if "::" in argument:
        head, _, names = argument.partition("::")
        return head, spoken(names.replace("::", "."))
    head, _, name = argument.rpartition(":")
    return head, spoken(name)


def _installed(name: str) -> list[Target]:
    """The files of a package, or of a module with those that it takes its names from."""
    sources = installed.sources(name)
    only = len(sources) == 1
    return [Target(path, module, explicit=only) for module, path in sources.items()] or [
        Target(None, name)  # it has no source here, and may be made by what imports it
    ]


def _python(path: Path) -> Path:
    """The file, if it is one of Python, or a script without an ending."""
    if path.suffix == NOTEBOOK:
        raise TargetError(
            f"{path}: a notebook, whose cells `cgcheck lint` reads; `jupyter nbconvert --to script "
            f"{path}` makes a Python file of it"
        )
    if path.suffix not in _PYTHON:
        raise TargetError(f"{path}: not a Python file")
    return path


def _is_module(name: str) -> bool:
    """Does the top-level package exist? (Looking deeper would run its code here.)"""
    if not all(part.isidentifier() for part in name.split(".")) or "/" in name:
        return False
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _missing(argument: str) -> str:
    looks_like_path = "/" in argument or argument.endswith(".py")
    if looks_like_path:
        parent = Path(argument).parent
        if parent.is_dir():
            import difflib

            close = difflib.get_close_matches(
                Path(argument).name, [entry.name for entry in parent.iterdir()], n=1
            )
            if close:
                return f"{argument}: no such file; did you mean {parent / close[0]}?"
        return f"{argument}: no such file or folder"
    return f"{argument}: neither a path nor a module that this Python can import"


def _merged(targets: Sequence[Target]) -> list[Target]:
    """One target for each file or module; naming the whole includes its functions."""
    merged: dict[str, Target] = {}
    for target in targets:
        key = real(target.path) if target.path else f"module {target.module}"
        old = merged.get(key)
        if old is None:
            merged[key] = target
            continue
        whole = not old.functions or not target.functions
        functions = () if whole else tuple(dict.fromkeys((*old.functions, *target.functions)))
        merged[key] = Target(
            old.path, old.module, functions, explicit=old.explicit or target.explicit
        )
    return list(merged.values())


def _python_files(folder: Path, exclude: Sequence[str], endings: Sequence[str]) -> Iterator[Path]:
    """Files of these endings below the folder; git-ignored, hidden and environment folders are skipped."""
    excluded = Spec.from_lines(exclude)
    yield from _walk(folder, "", _ignores_above(folder), excluded, tuple(endings))


def _walk(
    folder: Path,
    within: str,  # from the top on, with a slash at its end
    ignores: list[tuple[Path, Spec]],
    excluded: Spec,
    endings: tuple[str, ...],
) -> Iterator[Path]:
    ignores = [*ignores, *_ignore_of(folder)]
    here = folder.resolve() if ignores else folder
    with os.scandir(folder) as entries:
        there = sorted(entries, key=lambda entry: entry.name)
    for entry in there:
        name = entry.name
        if name.startswith(".") or name == "__pycache__":
            continue
        is_folder = entry.is_dir(follow_symlinks=False)
        if not (is_folder or name.endswith(endings)):
            continue
        slash = "/" if is_folder else ""
        if excluded.match_file(f"{within}{name}{slash}") or _ignored(here, name + slash, ignores):
            continue
        if not is_folder:
            if _is_file(entry):
                yield folder / name
        elif not (folder / name / "pyvenv.cfg").exists():
            yield from _walk(folder / name, f"{within}{name}/", ignores, excluded, endings)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Is it a file, and no link that leads to itself?"""
    try:
        return entry.is_file()
    except OSError:
        return False


def _ignores_above(folder: Path) -> list[tuple[Path, Spec]]:
    """The .gitignore files between the repository's root and this folder."""
    resolved = folder.resolve()
    chain = []
    for parent in resolved.parents:
        chain.append(parent)
        if (parent / ".git").exists():
            break
    else:
        return []
    if (resolved / ".git").exists():
        return []
    return [pair for parent in reversed(chain) for pair in _ignore_of(parent)]


def _ignore_of(folder: Path) -> list[tuple[Path, Spec]]:
    file = folder / ".gitignore"
    if not file.is_file():
        return []
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return [(folder.resolve(), Spec.from_lines(lines))]


def _ignored(folder: Path, name: str, ignores: Sequence[tuple[Path, Spec]]) -> bool:
    """The last .gitignore that speaks about what has this name in a folder decides; folders have a slash."""
    verdict = False
    for base, spec in ignores:
        within = folder.relative_to(base).as_posix()
        result = spec.check_file(name if within == "." else f"{within}/{name}")
        if result.include is not None:
            verdict = result.include
    return verdict
