"""Which custom gradients does a source file define? Answered from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from gradcheck_cli.contract.worker import Mark
from gradcheck_cli.project.framework_marks import MARKS, Marks


def find_marks(tree: ast.Module) -> list[Mark]:
    """All custom gradients that the module's source defines, in source order."""
    names = _imported(tree)
    return sorted(_visit(tree, names, scope=None, owner=None), key=lambda mark: mark.line)


def by_framework(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    """Marks under the name of their framework, as a task carries them."""
    groups: dict[str, list[Mark]] = {}
    for mark in marks:
        groups.setdefault(mark.framework, []).append(mark)
    return groups


def imported_roots(tree: ast.Module) -> set[str]:
    """Top-level modules that the source imports."""
    return {full.partition(".")[0] for full in _imported(tree).values()}


def _imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: `eqx` is `equinox`, `cv` is `jax.custom_vjp`."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    root = alias.name.partition(".")[0]
                    names[root] = root
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _visit(
    node: ast.AST, names: dict[str, str], scope: str | None, owner: str | None
) -> Iterator[Mark]:
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
        yield from _visit(child, names, inner_scope, inner_owner)


def _visit_one(
    node: ast.AST, names: dict[str, str], scope: str | None, owner: str | None
) -> Iterator[Mark]:
    yield from _visit(ast.Module(body=[node], type_ignores=[]), names, scope, owner)  # type: ignore[list-item]


def _decorated(
    node: ast.FunctionDef | ast.AsyncFunctionDef,
    names: dict[str, str],
    scope: str | None,
) -> Iterator[Mark]:
    for decorator in node.decorator_list:
        for part in ast.walk(decorator):
            hit = _custom(part, names)
            if hit:
                marks, kind = hit
                yield Mark(node.name, node.lineno, marks.framework, kind, scope)
                return


def _subclass(node: ast.ClassDef, names: dict[str, str], scope: str | None) -> Iterator[Mark]:
    for base in node.bases:
        full = _full(base, names)
        for marks in MARKS:
            root, _, rest = full.partition(".")
            if root in marks.roots and any(
                rest == name or rest.endswith("." + name) for name in marks.bases
            ):
                yield Mark(node.name, node.lineno, marks.framework, "Function", scope)


def _called(node: ast.Call, names: dict[str, str], scope: str | None) -> Iterator[Mark]:
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


def _custom(node: ast.AST, names: dict[str, str]) -> tuple[Marks, str] | None:
    if not isinstance(node, (ast.Name, ast.Attribute)):
        return None
    root, _, rest = _full(node, names).partition(".")
    last = rest.rpartition(".")[2]
    for marks in MARKS:
        if root in marks.roots and last in marks.callables:
            return marks, last
    return None


def _full(node: ast.AST, names: dict[str, str]) -> str:
    """The dotted name with imports resolved, or an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([names.get(node.id, ""), *reversed(parts)])


def _join(outer: str | None, name: str) -> str:
    return f"{outer}.{name}" if outer else name
