"""Which sources are worth a syntax tree? Of most, their words alone say that they define no custom gradient.

A custom gradient has a word of a framework in its text (`custom_vjp`, `Function`), or a decorator or base class that
is imported from a file of the project where such a word may stand, perhaps by way of further files.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from gradcheck_cli.project.framework_marks import LIBRARIES, MARKS
from gradcheck_cli.project.module_files import module_name, source_below
from gradcheck_cli.project.origins import imports

_NAMES = {n.rpartition(".")[2] for m in MARKS for n in (*m.callables, *m.bases, *m.solutions)}
_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(_NAMES))})\b")
_DECORATORS = re.compile(r"^[ \t]*@(.*?)^[ \t]*(?:async\s+def|def|class)\b", re.MULTILINE | re.DOTALL)  # fmt: skip
_CLASS = re.compile(r"^[ \t]*class\b[^\n(]*\(", re.MULTILINE)
_IMPORTS = re.compile(
    r"\b(?:from\s+[\w.]+\s+)?import\b[ \t]*(?:\((?:[^()#]|#[^\n]*)*\)|[^\n;]*(?:\\\n[^\n;]*)*)"
)
_LONGEST = 2000  # letters of the bases of a class
_MOST = 400  # files that an import leads to, one after the other


def may_define(source: str, path: Path) -> bool:
    """Is there anything in this source that could make a custom gradient?"""
    return has_a_word(source) or any(
        leads_to_a_word(path, full) for full in used_names(source, path)
    )


def has_a_word(source: str) -> bool:
    """Does a word of a framework stand in it?"""
    return _WORDS.search(source) is not None


def used_names(source: str, path: Path) -> list[str]:
    """The whole names, of files of the project perhaps, that decorators and base classes use."""
    used = {word for part in _used(source) for word in re.findall(r"\w+", part)}
    imported = _imported(source, path) if used else ()
    named = (full for name, full in imported if name in used)
    return sorted({full for full in named if full.partition(".")[0] not in LIBRARIES})


def leads_to_a_word(path: Path, full: str) -> bool:
    """Does a word of a framework stand in a file that this name leads through, or in what that imports?"""
    return any(map(_leads_to_a_word, _files(path, full)))


def _used(source: str) -> Iterator[str]:
    """The texts of decorators and of the bases of classes, or more."""
    yield from (match[1] for match in _DECORATORS.finditer(source))
    for match in _CLASS.finditer(source):
        end = source.find("):", match.end())
        yield source[match.end() : end if end >= 0 else match.end() + _LONGEST]


def _imported(source: str, path: Path) -> list[tuple[str, str]]:
    """Each imported name with all that it stands for, here or there; what only looks like an import, too."""
    found: list[tuple[str, str]] = []
    for match in _IMPORTS.finditer(source):
        try:
            tree = ast.parse(match.group())
        except (SyntaxError, ValueError):
            continue
        found += imports(tree, path)
        for node in tree.body:  # `import pkg.sub` gives the name `pkg`, and runs both
            names = node.names if isinstance(node, ast.Import) else ()
            found += [(alias.name.partition(".")[0], alias.name) for alias in names]
    return found


def _files(path: Path, full: str) -> Iterator[Path]:
    """The files of the project that a dotted name leads through; none for a library's."""
    parts = full.split(".")
    if parts[0] in LIBRARIES:
        return
    root = root_of(path.parent)
    for cut in range(len(parts), 0, -1):
        file = _source_below(root, ".".join(parts[:cut]))
        if file is not None:
            yield file


@functools.cache
def root_of(folder: Path) -> Path:
    """Where the modules of a folder are imported from: above the package that it is in."""
    return module_name(folder / "__init__.py")[0] if (folder / "__init__.py").is_file() else folder


@functools.cache
def _source_below(root: Path, name: str) -> Path | None:
    return source_below(root, name)


@functools.cache
def _leads_to_a_word(file: Path) -> bool:
    """Does a word of a framework stand in this file, or in one that it imports, by however many steps?"""
    seen, waiting = {file}, [file]
    for _ in range(_MOST):
        if not waiting:
            return False
        here = waiting.pop()
        text = _text(here)
        if _WORDS.search(text):
            return True
        new = {file for _, full in _imported(text, here) for file in _files(here, full)} - seen
        seen |= new
        waiting += sorted(new)
    return True  # too many to tell


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
