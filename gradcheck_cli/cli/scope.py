"""What a run is about: its files, of which a change may touch only some, and its settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import UsageError
from gradcheck_cli.contract.worker import AskedPoint
from gradcheck_cli.project import cache_folder
from gradcheck_cli.project.changed_files import (
    LAST_COMMIT,
    changed_since,
    sources_of,
    with_importers,
)
from gradcheck_cli.project.files import Target, resolve, without_excluded
from gradcheck_cli.project.point_specs import parse_point
from gradcheck_cli.project.settings import Settings


def named_paths(paths: Sequence[str], settings: Settings, root: Path) -> list[str]:
    """What the command line names, without what is excluded if that holds for names, too."""
    if not settings.force_exclude:
        return list(paths)
    return without_excluded(paths, settings.exclude, root)


def points_of(texts: Sequence[str]) -> list[AskedPoint]:
    """The points of `--at`."""
    return [parse_point(text) for text in texts]


def with_references(settings: Settings, given: Sequence[str], paths: Sequence[str]) -> Settings:
    """The settings with the functions of `--reference`, each for a rule of this name or for those that the paths name."""
    named = [path.rpartition(":")[2] for path in paths if ":" in path]
    found: dict[str, str] = {}
    for text in given:
        name, _, function = text.rpartition("=")
        if ":" not in function or not function.rpartition(":")[2]:
            raise UsageError(f"`--reference {text}`: name a function, as module:function")
        if not name and not named:
            raise UsageError(f"`--reference {text}`: say of which rule, as NAME={text}")
        found |= dict.fromkeys([name] if name else named, function)
    return msgspec.structs.replace(settings, references=settings.references | found)


def targets_of(
    paths: Sequence[str], settings: Settings, root: Path, since: str | None, *, changed: bool
) -> list[Target]:
    """What these paths name; of a change, what differs from a commit, and what imports that."""
    targets = resolve(paths, settings.exclude)
    if since is None and not changed:
        return targets
    own = {target.path for target in targets if target.path is not None}
    touched = with_importers(changed_since(since or LAST_COMMIT, root), own | sources_of(root))
    return [t for t in targets if t.path is not None and t.path.resolve() in touched]


def part_of(targets: Sequence[Target], shard: str | None) -> list[Target]:
    """The part of a shard, `2/4`: every fourth target, from the second on."""
    if shard is None:
        return list(targets)
    number, _, count = shard.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise UsageError(f"--shard: `{shard}` is no part; write 1/4 for the first of four")
    return list(targets[int(number) - 1 :: int(count)])


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


def kept_in(*, no_cache: bool) -> Path | None:
    """The folder of what is kept between runs, if anything is."""
    return None if no_cache else cache_folder.home()


def compiled_in(kept: Path | None) -> str | None:
    """Where compiled code is kept in it."""
    return None if kept is None else str(kept / cache_folder.COMPILED)
