"""What a call needs and this machine or this process has not: that is no fault of a rule."""

from __future__ import annotations

import linecache
import re
import traceback

_LACKS = (
    (r"process group|torch\.distributed|\bnccl\b|\bmpi\b", "a process group"),
    (r"unbound axis name", "an axis name, as a mapped function has one"),
    (
        r"compiled with (cuda|rocm|xpu)|no (cuda|hip|nvidia)|nvidia driver|cuda (driver|error)|cudart"
        r"|(requires|needs|must be|only (runs|works|supported) on) (a |an |on )?(cuda|gpu|tpu|nvidia)"
        r"|0 active drivers|interpret mode is supported on cpu",
        "a GPU",
    ),
    (r"ninja|cuda_home|nvcc|error (building|compiling)|c\+\+ compiler", "a compiler"),
)
_PATTERNS = tuple((re.compile(pattern, re.I), what) for pattern, what in _LACKS)


class NotHereError(Exception):
    """What is needed, and not here, as we know it."""


def lacking(error: BaseException | None) -> str | None:
    """What the code that raised this lacks here; nothing, if it may be the code itself."""
    if isinstance(error, NotHereError):
        return str(error)
    if isinstance(error, ImportError):
        return f"the module `{error.name}`" if error.name else "a module"
    if isinstance(error, OSError) and error.filename:
        return f"the file {error.filename}"
    if isinstance(error, NameError) and _is_imported(error):
        return f"`{error.name}`, which its file imports only if it can"
    text = str(error)
    return next((what for pattern, what in _PATTERNS if pattern.search(text)), None)


def _is_imported(error: NameError) -> bool:
    """Does the file that was run last import a thing of this name, inside of a `try` or an `if`?"""
    stack = traceback.extract_tb(error.__traceback__)
    lines = linecache.getlines(stack[-1].filename) if stack and error.name else []
    name = re.escape(error.name or "")
    given = rf"^[ \t]+(?:import\b|from\b[^\n]*\bimport\b)(?:[^\n(]*|\s*\([^()]*)\b{name}\b"
    return re.search(given, "".join(lines), re.MULTILINE) is not None
