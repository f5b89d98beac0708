"""The file of recorded calls: read with distrust, written in a stable order.

It stands under version control and is data: names are compared, never opened or imported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.contract.recorded import FloatArg, IntArg, RecordedArg, RecordedCall, TreeArg
from gradcheck_cli.project.input_specs import FAMILIES

FORMAT = 1
MOST_CALLS = 4  # of one gradient
_MOST_BYTES = 16 * 1024 * 1024
_MOST_NUMBERS = 1 << 24  # of one array
_MOST_RANK = 16
_MOST_DEPTH = 16
_INTEGERS = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))

Calls = dict[str, list[RecordedCall]]  # by "path:qualname"


class _Version(msgspec.Struct):
    format: int


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    format: int
    recorded: Calls


def load(file: Path) -> Calls:
    """All recorded calls; no file is no calls."""
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise SettingsError(
                f"{file}: larger than {_MOST_BYTES >> 20} MiB: no recording of ours"
            )
        data = file.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror}") from None
    try:
        version = msgspec.json.decode(data, type=_Version).format
        if version != FORMAT:
            problem = f"it has format {version}, this cgcheck reads {FORMAT}"
            raise SettingsError(f"{file}: {problem}: record again")
        recorded = msgspec.json.decode(data, type=_File).recorded
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{file}: no recording of ours: {error}") from None
    for name, calls in recorded.items():
        for call in calls:
            for argument in call.arguments.values():
                _checked(argument, f"{file}: `{name}`", 0)
    return recorded


def of_file(calls: Mapping[str, list[RecordedCall]], display: str) -> Calls:
    """The calls of one file, by qualname."""
    start = f"{display}:"
    return {name.removeprefix(start): c for name, c in calls.items() if name.startswith(start)}


def merged(old: Calls, new: Iterable[Calls]) -> Calls:
    """New calls of a gradient replace its old ones; the others are kept."""
    distinct: dict[str, dict[bytes, RecordedCall]] = {}
    for calls in new:
        for name, each in calls.items():
            for call in each:
                distinct.setdefault(name, {})[msgspec.json.encode(call)] = call
    fresh = {
        name: [c for _, c in sorted(same.items())][:MOST_CALLS] for name, same in distinct.items()
    }
    return dict(sorted({**old, **fresh}.items()))


def save(file: Path, calls: Calls) -> None:
    """An argument a line, so that a change shows as one."""
    each = ",\n".join(f"  {_json(name)}: [\n{_calls(own)}\n  ]" for name, own in calls.items())
    text = f'{{\n "format": {FORMAT},\n "recorded": {{\n{each}\n }}\n}}\n'
    unfinished = file.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(file)


def _calls(calls: Iterable[RecordedCall]) -> str:
    return ",\n".join(f'   {{"arguments": {{\n{_arguments(call)}\n   }}}}' for call in calls)


def _arguments(call: RecordedCall) -> str:
    return ",\n".join(
        f"    {_json(name)}: {_json(value)}" for name, value in call.arguments.items()
    )


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=0).decode()


def _checked(argument: RecordedArg, where: str, depth: int) -> None:
    """Shapes that can be, and no towers of trees."""
    if depth > _MOST_DEPTH:
        raise SettingsError(f"{where}: nested too deeply")
    if isinstance(argument, TreeArg):
        has_names = argument.kind in ("dict", "object")
        named = len(argument.names) == len(argument.items) or not has_names
        if argument.kind not in ("dict", "object", "list", "tuple") or not named:
            raise SettingsError(f"{where}: a tree that is no dict, object, list or tuple")
        for item in argument.items:
            _checked(item, where, depth + 1)
    elif isinstance(argument, (FloatArg, IntArg)):
        for problem in _problems(argument):
            raise SettingsError(f"{where}: {problem}")


def _problems(argument: FloatArg | IntArg) -> Iterator[str]:
    size = math.prod(argument.shape)
    if isinstance(argument, IntArg) and argument.dtype not in _INTEGERS:
        yield f"no integers are of dtype `{argument.dtype}`"
    if isinstance(argument, FloatArg) and argument.structure not in (None, *FAMILIES):
        yield f"no family of arrays is called `{argument.structure}`"
    if any(n < 0 for n in argument.shape) or len(argument.shape) > _MOST_RANK:
        yield f"no array has the shape {argument.shape}"
    elif size > _MOST_NUMBERS:
        yield f"an array of {size:,} numbers is too large"
    elif argument.values is not None and len(argument.values) != size:
        yield f"{len(argument.values)} values for the shape {argument.shape}"
