"""Calls as a file writes them: of what, within which functions, and what each hands to a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

Around = tuple[ast.FunctionDef, ...]  # the functions around a node, the innermost first


def tree_of(module: ModuleType) -> ast.Module | None:
    """The file of a module, parsed; None if it has none that can be read."""
    try:
        return ast.parse(Path(getattr(module, "__file__", None) or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


def calls_of(tree: ast.AST, name: str, around: Around = ()) -> Iterator[tuple[ast.Call, Around]]:
    """Calls of this name with the functions around them; none whose arguments are spread out of another."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == name and not _is_spread(node):
            yield node, around
        inside = (node, *around) if isinstance(node, ast.FunctionDef) else around
        yield from calls_of(node, name, inside)


def _is_spread(call: ast.Call) -> bool:
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)  # fmt: skip


def passed(
    tree: ast.Module, function: ast.FunctionDef, name: str
) -> Iterator[tuple[ast.expr, Around]]:
    """What calls elsewhere in the file hand to a parameter of a function of the module, or of the constructor of a class."""
    owner = _class_of(tree, function)
    is_own = _at(tree, function.lineno) is not None
    if not is_own and (owner is None or function.name != "__init__"):
        return
    parameters = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    own = parameters[1:] if owner else parameters
    for call, around in calls_of(tree, owner or function.name):
        given = dict(zip(own, call.args, strict=False))
        given |= {k.arg: k.value for k in call.keywords if k.arg is not None}
        if name in given:
            yield given[name], around


def _at(tree: ast.Module, line: int) -> ast.FunctionDef | None:
    """The function of the module that is defined in this line."""
    own = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next((node for node in own if node.lineno == line), None)


def definition(tree: ast.Module, function: FunctionType) -> ast.FunctionDef | None:
    """What defines a function, if it is one of the module itself that nothing decorates."""
    code = function.__code__
    node = _at(tree, code.co_firstlineno)
    return None if node is None or node.name != code.co_name else node


def _class_of(tree: ast.Module, function: ast.FunctionDef) -> str | None:
    """The class of the module that a function is a method of, by the line where it stands."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(each, ast.FunctionDef) and each.lineno == function.lineno
            for each in node.body
        ):
            return node.name
    return None


def only_result(function: ast.FunctionDef) -> ast.expr | None:
    """What a function gives that only gives names values, and then returns; None of any other."""
    *first, last = function.body
    plain = all(_gives_names(each) or _is_text(each) for each in first)
    simple = plain and not function.decorator_list and isinstance(last, ast.Return)
    return last.value if simple and isinstance(last, ast.Return) else None


def _gives_names(node: ast.stmt) -> bool:
    """`a = …`, `a, b = …`: nothing that is there already is changed."""
    targets = node.targets if isinstance(node, ast.Assign) else ()
    parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return bool(parts) and all(isinstance(part, ast.Name) for part in parts)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
