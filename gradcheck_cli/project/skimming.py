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

    def may_define(self, path: Path, leads: Leads) -> bool:
        """Are there both, in this file or in those that its names lead through?"""
        here = Path(real(path))
        files = [file for full in self.uses for file in _files(here, full)]
        return (self.word or any(map(leads.to_a_word, files))) and (
            self.library or any(map(leads.to_a_library, files))
        )


@dataclass(frozen=True, slots=True)
class Said:
    """What stands in a file that others lead to, and the whole names of all that it imports."""

    word: bool
    library: bool
    imported: Sequence[str]


def said_by(file: Path) -> Said:
    """What stands in this file; nothing in one that cannot be read."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")  # all that is sought is ASCII
    except OSError:
        return Said(False, False, ())
    names = sorted({full for _, full in _imported(text, file)})
    return Said(_has_a_word(text), _names_a_library(text), names)


class Leads:
    """Which files have a word or a library's name in their text, or import one that has it, by however many steps."""

    def __init__(self, said: Callable[[Path], Said] = said_by) -> None:
        self._said = functools.cache(said)
        self._led_to = functools.cache(self._imported_by)
        self._word: dict[Path, bool] = {}
        self._library: dict[Path, bool] = {}

    def to_a_word(self, file: Path) -> bool:
        """Is there a word that makes a custom gradient in this file, or in one that it leads to?"""
        return self._leads(file, self._word, lambda said: said.word)

    def to_a_library(self, file: Path) -> bool:
        """Is there the name of a framework?"""
        return self._leads(file, self._library, lambda said: said.library)

    def _leads(
        self, file: Path, answers: dict[Path, bool], is_sought: Callable[[Said], bool]
    ) -> bool:
        seen, waiting = {file}, [file]
        while waiting:
            here = waiting.pop()
            known = answers.get(here)
            if known or (known is None and is_sought(self._said(here))):
                answers[file] = True
                return True
            if known is None:
                new = self._led_to(here) - seen
                waiting += sorted(new)
                seen |= new
        answers |= dict.fromkeys(seen, False)
        return False

    def _imported_by(self, file: Path) -> set[Path]:
        """The files of the project that a file imports."""
        return {to for full in self._said(file).imported for to in _files(file, full)}


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
        if _begins_a_statement(source, start):
            rest = _REST.match(source, start)
            end = start if rest is None else rest.end()
            yield source[start:end]
        found = _IMPORT.search(source, max(end, found.end()))


def _begins_a_statement(source: str, start: int) -> bool:
    """Are there blanks alone before this place, from the head of the line or the end of a statement on?"""
    before = start - 1
    while before >= 0 and source[before] in _BLANK:
        before -= 1
    return before < 0 or source[before] in "\n;:"


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


def forget() -> None:
    """Forget where files were found to lie, which may have changed."""
    for kept in (root_of, _source_below):
        kept.cache_clear()
