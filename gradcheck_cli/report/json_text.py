"""JSON as text: halves of characters, which a file's name may hold, are replaced and never end a report."""

from __future__ import annotations

from typing import Any

import msgspec

from gradcheck_cli.report.told import plain


def indented(data: Any) -> str:
    """The data over several lines, the last one ended; the same data gives the same bytes."""
    return msgspec.json.format(_encoded(data), indent=2).decode() + "\n"


def in_one_line(data: Any) -> str:
    """The data in one line, which is ended."""
    return _encoded(data).decode() + "\n"


def _encoded(data: Any) -> bytes:
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return msgspec.json.encode(_whole(data))


def _whole(data: Any) -> Any:
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, dict):
        return {_whole(key): _whole(value) for key, value in data.items()}
    return list(map(_whole, data)) if isinstance(data, list) else data
