"""The source of a function, and the function with other source in its place for a while."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType

from gradcheck_cli.contract.report import Edit
from gradcheck_cli.judge.source.rule_text import Function
from gradcheck_cli.project.edits import applied


def tree_of(function: FunctionType) -> Function | None:
    """The function's definition in its file, without decorators; None if several might be it."""
    code = function.__code__
    candidates = []
    for node in _functions(code.co_filename):
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        if (first, name) == (code.co_firstlineno, code.co_name):
            candidates.append(node)
    if len(candidates) > 1:  # lambdas on one line
        placed = [n for n in candidates if _stands_at(n, code)]
        candidates = placed or [n for n in candidates if _same(_compiled(n, function), code)]
    return candidates[0] if len(candidates) == 1 else None


@functools.lru_cache(maxsize=32)
def _functions(path: str) -> tuple[Function, ...]:
    try:
        module = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(n for n in ast.walk(module) if isinstance(n, (ast.FunctionDef, ast.Lambda)))


def as_patched(function: FunctionType, patches: Sequence[Edit]) -> Function | None:
    """The function's definition once its file is edited: the same one of those of its name; None where it is no Python then."""
    path, own = function.__code__.co_filename, tree_of(function)
    try:
        module = ast.parse(applied("".join(linecache.getlines(path)), patches))
    except (SyntaxError, ValueError):
        return None
    before = [n for n in _functions(path) if _name(n) == _name(own)]
    after = [n for n in ast.walk(module) if isinstance(n, ast.FunctionDef) and n.name == _name(own)]
    if own not in before or len(before) != len(after):
        return None
    return after[before.index(own)]


def _name(function: Function | None) -> str:
    return function.name if isinstance(function, ast.FunctionDef) else ""


# The code that others stand for at the moment.
_OUT_OF_PLACE: list[CodeType] = []


def anything_rewritten() -> bool:
    """Does any function run another text than its own at the moment?"""
    return bool(_OUT_OF_PLACE)


def stands_as_written(codes: Collection[CodeType]) -> bool:
    """Are the functions with these codes as they were written?"""
    return not any(code in codes for code in _OUT_OF_PLACE)


@contextmanager
def rewritten(function: FunctionType, tree: Function) -> Iterator[bool]:
    """While active, the function runs this text; False (and nothing changes) if it cannot."""
    code = _compiled(tree, function)
    before = function.__code__
    if code is None or code.co_freevars != before.co_freevars:
        yield False
        return
    function.__code__ = code
    _OUT_OF_PLACE.append(before)
    try:
        yield True
    finally:
        _OUT_OF_PLACE.remove(before)
        function.__code__ = before


def _compiled(tree: Function, function: FunctionType) -> CodeType | None:
    """The code of a tree, compiled inside a function that has the variables it closes over."""
    body: ast.stmt
    if isinstance(tree, ast.Lambda):
        body = ast.Return(tree)
    else:
        body = ast.FunctionDef(**{**dict(ast.iter_fields(tree)), "decorator_list": []})
        ast.copy_location(body, tree)
    outer = ast.parse(f"def outer({', '.join(function.__code__.co_freevars)}): pass")
    scope = outer.body[0]
    assert isinstance(scope, ast.FunctionDef)
    scope.body = [body]
    try:
        module = compile(ast.fix_missing_locations(outer), function.__code__.co_filename, "exec")
    except (SyntaxError, ValueError, TypeError):
        return None
    (within,) = (c for c in module.co_consts if isinstance(c, CodeType))
    inner = [c for c in within.co_consts if isinstance(c, CodeType)]
    return next((c for c in inner if c.co_name == function.__code__.co_name), None)


def _stands_at(node: Function, code: CodeType) -> bool:
    """Is what the lambda returns what the code returns, by its place? Texts of a module that imports are compiled otherwise."""
    if not isinstance(node, ast.Lambda):
        return False
    body = node.body
    place = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return place in set(code.co_positions())


def _same(one: CodeType | None, other: CodeType) -> bool:
    names = ("co_code", "co_names", "co_consts")
    return one is not None and all(getattr(one, n) == getattr(other, n) for n in names)
