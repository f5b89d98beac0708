"""The house stays in order: rooms in the root, and no circles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gradcheck_cli

PACKAGE = Path(gradcheck_cli.__file__).parent
UNCLEAR = re.compile(r"(The same|Those|Of each)\b")
MOST_NEIGHBOURS = 12


def test_the_root_holds_rooms_only() -> None:
    assert {p.name for p in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_modules_import_each_other_in_no_circle() -> None:
    assert circle(imports()) == []


def test_packages_import_each_other_in_no_circle() -> None:
    """At every level: the folders (and files) of one folder, with all that is in them."""
    for folder in {name.rpartition(".")[0] for name in imports()}:
        siblings: dict[str, set[str]] = defaultdict(set)
        for name, near in imports().items():
            here = sibling(name, folder)
            siblings[here] |= {
                there for there in (sibling(n, folder) for n in near) if there != here
            }
        siblings.pop("", None)
        assert circle({k: v - {""} for k, v in siblings.items()}) == []


def test_no_file_imports_more_than_twelve_of_our_modules() -> None:
    crowded = {name for name, near in imports().items() if len(near) > MOST_NEIGHBOURS}
    assert crowded == set()


@cache
def imports() -> dict[str, frozenset[str]]:
    """For each of our modules the other modules of ours that it imports, anywhere in it."""
    files = {
        module_name(path): path for path in PACKAGE.rglob("*.py") if path.parent.name != "boot"
    }
    return {name: frozenset(imported(path, set(files)) - {name}) for name, path in files.items()}


def imported(path: Path, modules: set[str]) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in modules else node.module)
    return names & modules


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sibling(module: str, folder: str) -> str:
    """The member of the folder that this module is, or is in; nothing if it lies elsewhere."""
    rest = module.removeprefix(f"{folder}.")
    return "" if rest == module else rest.partition(".")[0]


def circle(near: dict[str, set[str]] | dict[str, frozenset[str]]) -> list[str]:
    try:
        TopologicalSorter(near).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_first_sentences_name_what_they_are_about() -> None:
    unclear = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in first_sentences(path)
        if UNCLEAR.match(text)
    ]
    assert unclear == []


def first_sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The line and the first line of each docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.partition("\n")[0]
