"""What a run is about: its files, of which a change may touch only some, and its settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.project.changed_files import changed_since, with_importers
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings


def only_changed(targets: Sequence[Target], revision: str | None, root: Path) -> list[Target]:
    """The targets that differ from a commit, or import what does; all, if there is none. An installed module does not."""
    if revision is None:
        return list(targets)
    files = [target.path for target in targets if target.path is not None]
    touched = with_importers(changed_since(revision, root), files)
    return [t for t in targets if t.path is not None and t.path.resolve() in touched]


def shown_names(targets: Sequence[Target], root: Path) -> Iterator[str]:
    """The targets as reports name them."""
    for target in targets:
        path = None if target.path is None else target.path.resolve()
        if path is None:
            yield target.module or ""
        elif path.is_relative_to(root.resolve()):
            yield path.relative_to(root.resolve()).as_posix()
        else:
            yield path.as_posix()


def as_toml(settings: Settings) -> str:
    """The settings as pyproject.toml would have them."""
    values = msgspec.to_builtins(settings)
    lines = [f"{name} = {_value(value)}" for name, value in values.items() if value is not None]
    return "\n".join(["[tool.cgcheck]", *lines]) + "\n"


def _value(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(k)} = {_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    return json.dumps(value, ensure_ascii=False)
