"""Arguments that hold arrays: dictionaries and tuples, made of the paths by which a text reads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradcheck_cli.project.input_specs import ArraySpec, Spec, SpecError, TreeSpec, parse

_STEP = re.compile(r"\[(?P<key>'[^']*'|\d+)\]|\.(?P<field>[A-Za-z_]\w*)")

Steps = tuple[str | int, ...]


def tree(name: str, paths: Iterable[str], leaf: Callable[[str], Any]) -> Any | None:
    """The dictionary or tuple whose parts are read by these paths; None if there is none.

    `leaf` makes the array at a path. Parts that are read as attributes belong to objects of a class.
    """
    steps = {s for s in (steps_of(name, path) for path in paths) if s}
    return _built(name, steps, leaf) if steps else None


def arrays_of(name: str, spec: str) -> dict[str, str]:
    """The spec of each array in a tree, by its path: `f32[n k]` at `params['w']`."""
    try:
        return dict(_arrays(name, parse(f"tree={spec}")["tree"]))
    except SpecError:
        return {}


def _arrays(path: str, spec: Spec) -> Iterator[tuple[str, str]]:
    if isinstance(spec, ArraySpec):
        yield path, spec.text
    elif isinstance(spec, TreeSpec):
        for key, item in spec.items:
            step = repr(key) if spec.kind == "dict" else key
            yield from _arrays(f"{path}[{step}]", item)


def fields(name: str, paths: Iterable[str]) -> frozenset[str]:
    """The attributes that are read of an argument."""
    matches = (_STEP.match(path, len(name)) for path in paths if path.startswith(f"{name}."))
    return frozenset(match["field"] for match in matches if match is not None and match["field"])


def steps_of(name: str, path: str) -> Steps:
    """The keys and places on the way to a part; nothing where the path is another's or has attributes."""
    if not path.startswith(f"{name}["):
        return ()
    matches = list(_STEP.finditer(path, len(name)))
    whole = "".join(match[0] for match in matches) == path[len(name) :]
    if not whole or any(match["field"] for match in matches):
        return ()
    return tuple(int(m["key"]) if m["key"].isdigit() else m["key"].strip("'") for m in matches)


def _built(path: str, steps: set[Steps], leaf: Callable[[str], Any]) -> Any:
    inner = {s for s in steps if s}
    if not inner:
        return leaf(path)
    keys = {s[0] for s in inner}
    below = {key: {s[1:] for s in inner if s[0] == key} for key in keys}
    if all(isinstance(key, int) for key in keys):
        count = max(key for key in keys if isinstance(key, int)) + 1
        return tuple(_built(f"{path}[{i}]", below.get(i, set()), leaf) for i in range(count))
    names = sorted(str(key) for key in keys)
    return {key: _built(f"{path}[{key!r}]", below.get(key, set()), leaf) for key in names}
