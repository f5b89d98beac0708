"""JSON Schemas of what others read and write, the same from every version of msgspec."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of a struct, with its docstrings as they are read, not as they are indented."""
    schema: dict[str, Any] = _plain(msgspec.json.schema(kind))
    return schema


def _plain(part: Any) -> Any:
    if isinstance(part, dict):
        return {
            key: inspect.cleandoc(value)
            if key == "description" and isinstance(value, str)
            else _plain(value)
            for key, value in part.items()
        }
    return [_plain(each) for each in part] if isinstance(part, list) else part
