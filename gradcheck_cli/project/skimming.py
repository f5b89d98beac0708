"""Which sources are worth a syntax tree? Of most, their words alone say that they define no custom gradient.

A custom gradient has a word of a framework (`custom_vjp`, `Function`) and the framework's name in its text, or in that of a
file of the project that its decorator or base class is imported from, perhaps by way of further files.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradcheck_cli.project.framework_marks import LIBRARIES, MARKS
from gradcheck_cli.project.module_files import module_name, source_below
from gradcheck_cli.project.origins import imports
from gradcheck_cli.project.real_paths import real

_NAMES = {n.rpartition(".")[2] for m in MARKS for n in (*m.callables, *m.bases, *m.solutions)}
_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(_NAMES))})\b")
_DECORATORS = re.compile(r"^[ \t]*@(.*?)^[ \t]*(?:async\s+def|def|class)\b", re.MULTILINE | re.DOTALL)  # fmt: skip
_CLASS = re.compile(r"^[ \t]*class\b[^\n(]*\(", re.MULTILINE)
_IMPORT = re.compile(r"\b(?:from|import)\b")
_REST = re.compile(r"(?:\((?:[^()#]|#[^\n]*\n)*+\)|\\\n|[^\n;(\\])*+")  # of a logical line
_BLANK = " \t\f"
_COMMENT = re.compile(r"#[^\n]*")
_LONGEST = 2000  # letters of the bases of a class


@dataclass(frozen=True, slots=True)
class Words:
    """What stands in a source, and the whole names, of files of the project perhaps, that it uses."""

    word: bool  # of what makes a custom gradient
    library: bool  # the name of a framework
    uses: Sequence[str]

    def may_define(self, path: Path) -> bool:
        """Are there both, in this file or in those that its names lead through?"""
        here = Path(real(path))
        files = [file for full in self.uses for file in _files(here, full)]
        return (self.word or any(map(_leads_to_a_word, files))) and (
            self.library or any(map(_leads_to_a_library, files))
        )


def may_define(source: str, path: Path) -> bool:
    """Is there anything in this source that could make a custom gradient?"""
    return words_of(source, path).may_define(path)


def words_of(source: str, path: Path) -> Words:
    """What stands in this source."""
    word, library = _has_a_word(source), _names_a_library(source)
    return Words(word, library, () if word and library else _used_names(source, Path(real(path))))


def _has_a_word(source: str) -> bool:
    """Does a whole word of it make a custom gradient? Most have none, not even as a part of another, which is found fastest."""
    return any(name in source for name in _NAMES) and _WORDS.search(source) is not None


def _names_a_library(source: str) -> bool:
    return any(library in source for library in LIBRARIES)


def _used_names(source: str, path: Path) -> list[str]:
    """The whole names, of files of the project perhaps, that decorators and base classes use."""
    used = {word for part in _used(source) for word in re.findall(r"\w+", part)}
    imported = _imported(source, path) if used else ()
    named = (full for name, full in imported if name in used)
    return sorted({full for full in named if full.partition(".")[0] not in LIBRARIES})


def _used(source: str) -> Iterator[str]:
    """The texts of decorators and of the bases of classes, or more."""
    if "@" in source:
        yield from (match[1] for match in _DECORATORS.finditer(source))
    for match in _CLASS.finditer(source) if "class" in source else ():
        part = source[match.end() : match.end() + _LONGEST]
        bases = part.partition("):")[0]
        yield bases
        if "#" in bases:  # a comment, or a text
            yield _COMMENT.sub("", part).partition("):")[0]


def _imported(source: str, path: Path) -> list[tuple[str, str]]:
    """Each imported name with all that it stands for, here or there; what only looks like an import, too."""
    found: list[tuple[str, str]] = []
    for text in _import_texts(source):
        for tree in _parsed(text):
            found += imports(tree, path)
            for node in tree.body:  # `import pkg.sub` gives the name `pkg`, and runs both
                names = node.names if isinstance(node, ast.Import) else ()
                found += [(alias.name.partition(".")[0], alias.name) for alias in names]
    return found


def _import_texts(source: str) -> Iterator[str]:
    """The logical lines that begin with such a word, at the head of a line or behind another statement."""
    found = _IMPORT.search(source)
    while found is not None:
        start = end = found.start()
        ahead = source[source.rfind("\n", 0, start) + 1 : start].rstrip(_BLANK)
        if not ahead or ahead[-1] in ";:":
            rest = _REST.match(source, start)
            end = start if rest is None else rest.end()
            yield source[start:end]
        found = _IMPORT.search(source, max(end, found.end()))


def _parsed(text: str) -> Iterator[ast.Module]:
    """The import, or those of its lines that are one: where a docstring has `from (`, more follows."""
    lines = text.splitlines()
    try:
        yield ast.parse(text)
    except (SyntaxError, ValueError):
        if len(lines) > 1:
            for line in lines:
                yield from _parsed(line.strip())


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


class _Leading:
    """Which files have a text that is sought, or import one that has it, by however many steps."""

    def __init__(self, is_sought: Callable[[str], bool]) -> None:
        self._is_sought = is_sought
        self.known: dict[Path, bool] = {}

    def __call__(self, file: Path) -> bool:
        """Is it this file, or one that it leads to?"""
        seen, waiting = {file}, [file]
        while waiting:
            here = waiting.pop()
            known = self.known.get(here)
            if known or (known is None and self._is_sought(_text(here))):
                self.known[file] = True
                return True
            if known is None:
                new = _led_to(here) - seen
                seen |= new
                waiting += sorted(new)
        self.known |= dict.fromkeys(seen, False)
        return False


_leads_to_a_word, _leads_to_a_library = _Leading(_has_a_word), _Leading(_names_a_library)


@functools.cache
def _led_to(file: Path) -> set[Path]:
    """The files of the project that a file imports."""
    return {each for _, full in _imported(_text(file), file) for each in _files(file, full)}


@functools.lru_cache(maxsize=256)  # what is read for one search is sought through by another
def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def forget() -> None:
    """Forget what files were found to say, which may have changed."""
    _leads_to_a_word.known.clear()
    _leads_to_a_library.known.clear()
    for kept in (_led_to, _text, root_of, _source_below):
        kept.cache_clear()
