"""Which custom gradients does a source file define? Answered from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.project.framework_marks import MARKS, UNJUDGED, Marks
from gradcheck_cli.project.origins import Names, names_of

_FURTHEST = 8  # classes between one and the library's: two may name each other


def find_marks(tree: ast.Module, path: Path | None = None) -> list[Mark]:
    """All custom gradients that the module's source defines, in source order.

    With its path, what it imports from files of its project is read there: a decorator, a base class.
    """
    names = names_of(tree, path)
    return sorted(_visit(tree, names, scope=None, owner=None), key=lambda mark: mark.line)


def by_framework(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    """Marks under the name of their framework, as a task carries them."""
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.framework, []).append(mark)
    return groups


def imported_roots(tree: ast.Module) -> set[str]:
    """Top-level modules that the source imports."""
    return {full.partition(".")[0] for full in names_of(tree).imported.values()}


def _visit(node: ast.AST, names: Names, scope: str | None, owner: str | None) -> Iterator[Mark]:
    for child in ast.iter_child_nodes(node):
        inner_scope, inner_owner = scope, owner
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _decorated(child, names, scope)
            inner_scope = _join(scope or owner, child.name)
            for part in (*child.body, *child.args.defaults):
                yield from _visit_one(part, names, inner_scope, owner)
            continue
        if isinstance(child, ast.ClassDef):
            yield from _subclass(child, names, scope)
            inner_owner = _join(scope or owner, child.name)
        elif isinstance(child, ast.Call):
            yield from _called(child, names, scope)
            yield from _solution(child, names, scope)
        yield from _visit(child, names, inner_scope, inner_owner)


def _visit_one(node: ast.AST, names: Names, scope: str | None, owner: str | None) -> Iterator[Mark]:
    yield from _visit(ast.Module(body=[node], type_ignores=[]), names, scope, owner)  # type: ignore[list-item]


def _decorated(
    node: ast.FunctionDef | ast.AsyncFunctionDef, names: Names, scope: str | None
) -> Iterator[Mark]:
    parts = [part for decorator in node.decorator_list for part in ast.walk(decorator)]
    hits = (_custom(part, names) or _through_project(part, names) for part in parts)
    hit = next(filter(None, hits), None)
    if hit:
        marks, kind = hit
        yield Mark(node.name, node.lineno, marks.framework, kind, scope)


def _subclass(node: ast.ClassDef, names: Names, scope: str | None) -> Iterator[Mark]:
    for base in node.bases:
        marks = _function_of(base, names)
        if marks is not None:
            kind = UNJUDGED if UNJUDGED in marks.bases else "Function"
            yield Mark(node.name, node.lineno, marks.framework, kind, scope)


def _function_of(base: ast.expr, names: Names, furthest: int = _FURTHEST) -> Marks | None:
    """The framework whose class of functions this is, perhaps through classes of the project."""
    marks = _function_class(names.full(base))
    if marks is not None:
        return marks
    origin = names.origin(base)
    if isinstance(origin.definition, ast.ClassDef) and origin.names is not None:
        bases = origin.definition.bases if furthest else ()
        outer = (_function_of(each, origin.names, furthest - 1) for each in bases)
        return next(filter(None, outer), None)
    return _function_class(origin.full)


def _function_class(full: str) -> Marks | None:
    root, _, rest = full.partition(".")
    for marks in MARKS:
        named = any(f".{rest}".endswith(f".{name}") for name in marks.bases)
        if root in marks.roots and named:
            return marks
    return None


def _called(node: ast.Call, names: Names, scope: str | None) -> Iterator[Mark]:
    """`f = jax.custom_vjp(g)`, and `partial(jax.custom_vjp, …)(g)`."""
    target = node.func
    hit = _custom(target, names)
    if hit is None and isinstance(target, ast.Call):
        hit = next(filter(None, (_custom(arg, names) for arg in target.args)), None)
    if hit and node.args:
        marks, kind = hit
        first = node.args[0]
        name = first.id if isinstance(first, ast.Name) else f"<{kind}>"
        yield Mark(name, node.lineno, marks.framework, kind, scope)


def _solution(node: ast.Call, names: Names, scope: str | None) -> Iterator[Mark]:
    """`lax.custom_root(…)` in a function, which has an implicit derivative by that."""
    root, _, rest = names.full(node.func).partition(".")
    last = rest.rpartition(".")[2]
    for marks in MARKS:
        if scope is not None and root in marks.roots and last in marks.solutions:
            yield Mark(last, node.lineno, marks.framework, last, scope)


def _custom(node: ast.AST, names: Names) -> tuple[Marks, str] | None:
    """The custom gradient of a library that this names."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    return _of_library(names.full(node))


def _of_library(full: str) -> tuple[Marks, str] | None:
    root, _, rest = full.partition(".")
    last = rest.rpartition(".")[2]
    for marks in MARKS:
        if root in marks.roots and last in marks.callables:
            return marks, last
    return None


def _through_project(node: ast.AST, names: Names) -> tuple[Marks, str] | None:
    """The custom gradient that a name stands for by way of another file, or that a function there makes."""
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    origin = names.origin(node)
    if origin.definition is None or origin.names is None:
        return _of_library(origin.full)
    if isinstance(origin.definition, ast.ClassDef):
        return None
    hits = (_custom(part, origin.names) for part in ast.walk(origin.definition))
    return next(filter(None, hits), None)


def _join(outer: str | None, name: str) -> str:
    return f"{outer}.{name}" if outer else name
