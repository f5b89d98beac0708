"""The house stays in order: rooms in the root, and no circles."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import gradcheck_cli

PACKAGE = Path(gradcheck_cli.__file__).parent
ROOT = Path(__file__).parents[1]
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


def test_the_way_through_the_house_names_every_room_in_its_order() -> None:
    """Each room knows only rooms above it, says the page: as the layers have it."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^ {4}(\w+)/ +\S", text, flags=re.M)
    own = [p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    assert sorted(rooms) == sorted([*own, "rules"])
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(
        c["layers"]
        for c in settings["tool"]["importlinter"]["contracts"]
        if c.get("containers") == ["gradcheck_cli"]
    )
    height = {room: n for n, layer in enumerate(reversed(layers)) for room in layer.split(" | ")}
    heights = [height[room] for room in rooms if room != "rules"]
    assert heights == sorted(heights)
    tested = {p.name for p in (ROOT / "tests").iterdir() if (p / "__init__.py").exists()}
    assert set(own) <= tested


def test_what_the_page_for_contributors_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:scripts|tests|docs|fixtures|benchmarks|rules)/[\w/.-]*)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


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
