"""Arguments that every call of the project gives as what nobody learns: a buffer, or what was detached."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gradcheck_cli.clues.interpreted.project import parsed
from gradcheck_cli.clues.interpreted.run import SeenCall

_DETACHES = frozenset({"detach", "stop_gradient"})
# Methods and functions that hand on what they are given, in another shape or dtype.
_HANDS_ON = frozenset(
    {"to", "type_as", "float", "half", "view", "reshape", "unsqueeze", "squeeze", "expand", "contiguous", "narrow"}
)  # fmt: skip


def never_learned(calls: Sequence[SeenCall], names: Sequence[str]) -> set[str]:
    """The parameters of which that is so at each call; none where there is no call."""
    given = [dict(_arguments(call, names)) for call in calls]
    return {
        name
        for name in names
        if given and all(name in each and _is_fixed(each[name], call) for each, call in zip(given, calls, strict=True))
    }  # fmt: skip


def _arguments(call: SeenCall, names: Sequence[str]) -> Iterator[tuple[str, ast.expr]]:
    yield from zip(call.parameters or names, call.node.args, strict=False)
    yield from ((k.arg, k.value) for k in call.node.keywords if k.arg)


def _is_fixed(node: ast.expr, call: SeenCall) -> bool:
    """Does it come from a buffer of the object, or from behind a `detach`?"""
    match node:
        case ast.Subscript(value=inner):
            return _is_fixed(inner, call)
        case ast.Call(func=ast.Attribute(attr=name)) if name in _DETACHES:
            return True
        case ast.Call(func=ast.Name(id=name)) if name in _DETACHES:
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _HANDS_ON:
            return _is_fixed(inner, call)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return any(re.fullmatch(buffer, name) for buffer in _buffers(call.module.path))
        case ast.Name(id=name):
            made = _made_before(name, call)
            return len(made) == 1 and _is_fixed(made[0], call)
    return False


def _made_before(name: str, call: SeenCall) -> list[ast.expr]:
    """What the function that makes the call assigns to a local name before."""
    tree = parsed(call.module.path) or ast.Module([], [])
    line = call.node.lineno
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line)
    ]
    inner = max(around, key=lambda node: node.lineno, default=None)
    return [
        node.value
        for node in (ast.walk(inner) if inner is not None else ())
        if isinstance(node, ast.Assign) and node.lineno < line
        for target in node.targets
        if isinstance(target, ast.Name) and target.id == name
    ]


@functools.cache
def _buffers(path: Path) -> frozenset[str]:
    """The names under which the classes of a file register buffers, as patterns: of `f"sign_{side}"` a part is open."""
    tree = parsed(path)
    calls = (n for n in ast.walk(tree or ast.Module([], [])) if isinstance(n, ast.Call))
    named = (
        c.args[0]
        for c in calls
        if isinstance(c.func, ast.Attribute) and c.func.attr == "register_buffer" and c.args
    )
    return frozenset(filter(None, map(_pattern, named)))


def _pattern(name: ast.expr) -> str:
    """A pattern for the names that an expression may give; empty where nothing is written down."""
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    texts = [re.escape(str(p.value)) if isinstance(p, ast.Constant) else r"\w+" for p in parts]
    return "".join(texts) if any(isinstance(part, ast.Constant) for part in parts) else ""
